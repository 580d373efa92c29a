//! Finds programs, or why there is none.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::failure::{NOT_EXECUTABLE, NOT_FOUND, NotStarted};
use crate::foreign::Foreign;
use crate::input::Input;
use crate::path_errors::faulty_folder;

/// Finds the file of a program, as a shell does.
///
/// # Errors
/// Names the folder, the permission or the kind of file that is at fault.
pub fn find(name: &OsStr) -> Result<PathBuf, NotStarted> {
    which::which(name).map_err(|_| {
        let file = Path::new(name);
        let (code, message) = if file.components().count() > 1 { at_path(file) } else { in_path(file) };
        NotStarted { code, message: format!("{}: {message}", file.display()) }
    })
}

/// Returns why there is no program at a path.
fn at_path(file: &Path) -> (u8, String) {
    let link = || file.read_link().ok().map(|target| format!("a link to {}, which is missing", target.display()));
    match () {
        () if file.is_dir() => (NOT_EXECUTABLE, "is a directory".to_owned()),
        () if file.exists() => (NOT_EXECUTABLE, not_executable(file)),
        () => match faulty_folder(file) {
            Some(fault) if fault.starts_with("no permission") => (NOT_EXECUTABLE, fault),
            Some(fault) => (NOT_FOUND, format!("no such program: {fault}")),
            None => (NOT_FOUND, link().unwrap_or_else(|| "no such program".to_owned())),
        },
    }
}

/// Returns why no folder of PATH has a program of this name.
fn in_path(name: &Path) -> (u8, String) {
    let here = || format!("; the file in this folder is ./{}", name.display());
    let hint = Some(name).filter(|name| name.is_file()).map(|_| here()).unwrap_or_default();
    (NOT_FOUND, format!("no such program in the folders of PATH{hint}"))
}

/// Describes a non-executable file by its permissions.
fn not_executable(file: &Path) -> String {
    let refused = || format!("not executable (permission denied): \"chmod +x {}\" makes it so", file.display());
    data_file(file).unwrap_or_else(refused)
}

/// Describes a file that holds data of a kind that lastuse knows; `None` for programs and unknown files.
pub fn data_file(file: &Path) -> Option<String> {
    let what = match Foreign::of_file(file) {
        Some(Foreign::Binary | Foreign::Script) => return None,
        Some(foreign) => foreign.name(),
        None => Input::read_graph(file).ok().map(|_| "a graph, which \"lastuse explain\" reads".to_owned())?,
    };
    Some(format!("this is {what}, not a program: give the program that uses it, and its arguments"))
}
