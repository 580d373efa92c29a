//! Finds programs, and why there is none or why the system does not execute it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use object::{Object, ReadCache};

use crate::elf;
use crate::foreign::{Foreign, faulty_folder};
use crate::input::Input;
use crate::launch::{NOT_EXECUTABLE, NOT_FOUND, NotStarted};

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

/// Returns whether a word names a binary or a script, executable or not, as a path or in the folders of PATH.
pub fn is_program(name: &OsStr) -> bool {
    // Reading a pipe would wait, and take what is for another reader.
    let is_one = |file: &Path| file.is_file() && Foreign::of_file(file).is_some_and(Foreign::is_program);
    is_one(Path::new(name)) || which::which(name).is_ok_and(|file| is_one(&file))
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
        Some(foreign) if foreign.is_program() => return None,
        Some(foreign) => foreign.name.to_owned(),
        None => Input::read_graph(file).ok().map(|_| "a graph, which \"lastuse explain\" reads".to_owned())?,
    };
    Some(format!("this is {what}, not a program: give the program that uses it, and its arguments"))
}

/// The most bytes of the first line of a script that Linux reads.
const FIRST_LINE: u64 = 256;

/// Translates the error of starting a program: names its interpreter, its machine or its permission, if that is at fault.
pub fn not_started(program: &Path, error: &io::Error) -> NotStarted {
    let code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    let message = reason(program, error).unwrap_or_else(|| error.to_string());
    NotStarted { code, message: format!("{}: {message}", program.display()) }
}

fn reason(program: &Path, error: &io::Error) -> Option<String> {
    if error.raw_os_error() == Some(Errno::ENOEXEC as i32) {
        return Some(unknown_format(program));
    }
    let (kind, interpreter) = match script_interpreter(program) {
        Some(interpreter) => ("interpreter, which its first line names (#!)", interpreter),
        None => ("dynamic loader, which the binary names", elf::interpreter(program)?),
    };
    let file = interpreter.display();
    match error.kind() {
        ErrorKind::NotFound => Some(format!("its {kind}, is missing: {file}")),
        ErrorKind::PermissionDenied if interpreter.is_dir() => Some(format!("its {kind}, is a directory: {file}")),
        ErrorKind::PermissionDenied => Some(format!("its {kind}, is not executable (permission denied): {file}")),
        _ => None,
    }
}

/// Describes a file with permission to be executed that the system cannot execute.
fn unknown_format(program: &Path) -> String {
    let machine = File::open(program).ok().map(ReadCache::new).and_then(|data| {
        let file = object::File::parse(&data).ok()?;
        Some(format!("a binary for another machine ({:?})", file.architecture()))
    });
    machine.or_else(|| data_file(program)).unwrap_or_else(|| {
        "neither a binary nor a script: a script names its interpreter in its first line, such as #!/bin/sh".to_owned()
    })
}

/// Returns the interpreter that the first line of a script names.
fn script_interpreter(program: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    BufReader::new(File::open(program).ok()?.take(FIRST_LINE)).read_until(b'\n', &mut line).ok()?;
    let name = line.strip_prefix(b"#!")?.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    Some(PathBuf::from(OsStr::from_bytes(name))).filter(|name| !name.as_os_str().is_empty())
}
