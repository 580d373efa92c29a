//! Copies of folders.

use std::fs;
use std::path::Path;

use crate::Result;

/// Copies a folder in full or not at all.
///
/// # Errors
/// The error of the system.
pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let partial = to.with_extension("partial");
    let _ = fs::remove_dir_all(&partial);
    let copied = copy_entries(from, &partial).and_then(|()| fs::rename(&partial, to));
    copied.map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))
}

fn copy_entries(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_entries(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
