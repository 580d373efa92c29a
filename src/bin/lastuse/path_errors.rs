//! Why files cannot be read or written: the folder or the permission at fault.

use std::io::{self, ErrorKind};
use std::path::Path;

/// Describes why a file cannot be read: the error of the system, and the folder at fault, if it is one.
pub fn unreadable(file: &Path, error: &io::Error) -> String {
    match faulty_folder(file) {
        Some(fault) => format!("{error}: {fault}"),
        None => error.to_string(),
    }
}

/// Describes why a file cannot be opened for writing.
pub fn unwritable(file: &Path, error: &io::Error) -> String {
    if let Some(fault) = faulty_folder(file) {
        return fault;
    }
    match error.kind() {
        ErrorKind::PermissionDenied if file.exists() => "no permission to write to this file".to_owned(),
        ErrorKind::PermissionDenied => format!("no permission to create files in {}", parent(file).display()),
        ErrorKind::IsADirectory => "it is a folder".to_owned(),
        _ => error.to_string(),
    }
}

/// Describes the first folder of a path that is missing, is not a folder, or may not be searched.
pub fn faulty_folder(path: &Path) -> Option<String> {
    let parts: Vec<&Path> = path.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
    let (file, folders) = parts.split_first()?;
    for folder in folders.iter().rev().chain([file]) {
        match folder.metadata() {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Some(format!("no permission to search the folder {}", parent(folder).display()));
            }
            _ if folder == file => {}
            Ok(data) if !data.is_dir() => return Some(format!("{} is not a folder", folder.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Some(format!("there is no folder {}", folder.display()));
            }
            _ => {}
        }
    }
    None
}

/// Returns the folder of a path.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
