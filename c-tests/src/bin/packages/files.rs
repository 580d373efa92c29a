//! Files of folders.

use std::fs;
use std::path::Path;

use lastuse_c_tests::Result;

/// Returns the paths of all files below a folder, relative to it and in order.
///
/// # Errors
/// The error of the system.
pub fn files(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let failed = |error: std::io::Error| format!("{}: {error}", next.display());
        for entry in fs::read_dir(&next).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap_or(&path);
                found.push(name.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Writes a file, and makes its folder.
///
/// # Errors
/// The error of the system.
pub fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    let written = fs::create_dir_all(parent(file)).and_then(|()| fs::write(file, bytes));
    written.map_err(|error| format!("{}: {error}", file.display()))
}

/// The folder of a file.
pub fn parent(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("."))
}
