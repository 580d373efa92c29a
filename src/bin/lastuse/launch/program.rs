//! Can lastuse stand before the ggml of a program?

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, ReadCache, ReadRef};

use super::{NOT_FOUND, NOT_RUNNABLE, NotStarted};

/// One of the functions that lastuse stands before, and one that only lastuse has.
const ALLOCATOR: &str = "ggml_gallocr_new_n";
const LASTUSE: &str = "lastuse_version";

/// The file of a program, as a shell finds it.
pub fn find(name: &OsStr) -> Result<PathBuf, NotStarted> {
    which::which(name).map_err(|_| {
        let file = Path::new(name);
        let (code, message) = match file.is_file() {
            true => (NOT_RUNNABLE, "it is no program that may be run"),
            false => (NOT_FOUND, "there is no such program"),
        };
        NotStarted { code, message: format!("{}: {message}", file.display()) }
    })
}

/// What the system said when it did not start the program.
pub fn not_started(program: &Path, error: &io::Error) -> NotStarted {
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE };
    NotStarted { code, message: format!("{}: {error}", program.display()) }
}

/// Has the program lastuse inside, so that nothing has to be preloaded? A file that tells nothing, such as a script, is
/// believed to start a program that loads ggml.
///
/// # Errors
/// Nothing that is preloaded would be asked.
pub fn has_lastuse(program: &Path) -> Result<bool, NotStarted> {
    let Ok(file) = File::open(program) else { return Ok(false) };
    let cache = ReadCache::new(file);
    let Ok(elf) = ElfFile64::<Endianness, _>::parse(&cache) else { return Ok(false) };
    let (allocator, lastuse) = (defines(&elf, ALLOCATOR), defines(&elf, LASTUSE));
    let refuse = |why: &str| Err(NotStarted::failed(format!("{}: {why}", program.display())));
    if allocator && lastuse {
        return Ok(true);
    }
    if !has_loader(&elf) {
        return refuse(
            "it is linked statically, so no library can be loaded before its ggml; link liblastuse.a before \
             libggml-base.a when you build it (README, \"Use it in your program\")",
        );
    }
    if allocator {
        return refuse(
            "ggml is linked into it statically, so a library before it is never asked; build it with a shared ggml \
             (llama.cpp: cmake -DBUILD_SHARED_LIBS=ON), or link liblastuse.a before libggml-base.a (README, \"Use it in \
             your program\")",
        );
    }
    Ok(false)
}

fn defines<'data, R: ReadRef<'data>>(elf: &ElfFile64<'data, Endianness, R>, name: &str) -> bool {
    elf.symbols().chain(elf.dynamic_symbols()).any(|symbol| symbol.is_definition() && symbol.name() == Ok(name))
}

/// Does it ask for the dynamic loader?
fn has_loader<'data, R: ReadRef<'data>>(elf: &ElfFile64<'data, Endianness, R>) -> bool {
    let header: &FileHeader64<Endianness> = elf.elf_header();
    let headers = header.program_headers(elf.endian(), elf.data());
    headers.is_ok_and(|headers| headers.iter().any(|header| header.p_type(elf.endian()) == PT_INTERP))
}
