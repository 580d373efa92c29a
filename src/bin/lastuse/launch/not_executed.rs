//! Why the system does not execute a program that is there.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, Object, ReadCache, ReadRef, elf};

use super::failure::{NOT_EXECUTABLE, NOT_FOUND, NotStarted};
use super::find::data_file;

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
        None => ("dynamic loader, which the binary names", elf_interpreter(program)?),
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

/// Returns the dynamic loader that a binary names.
fn elf_interpreter(program: &Path) -> Option<PathBuf> {
    let data = ReadCache::new(File::open(program).ok()?);
    match FileKind::parse(&data).ok()? {
        FileKind::Elf32 => loader::<elf::FileHeader32<Endianness>, _>(&data),
        FileKind::Elf64 => loader::<elf::FileHeader64<Endianness>, _>(&data),
        _ => None,
    }
}

fn loader<'data, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'data>>(data: R) -> Option<PathBuf> {
    let header = Elf::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, data).ok()?;
    let name = headers.iter().find_map(|header| header.interpreter(endian, data).ok()?)?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}
