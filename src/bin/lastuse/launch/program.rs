//! Whether lastuse can replace the ggml-alloc of a program.

use std::fs::File;
use std::path::Path;

use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, ReadCache, ReadRef};

use super::failure::NotStarted;

/// A function that ggml-alloc and lastuse have, and one that only lastuse has.
const ALLOCATOR: &str = "ggml_gallocr_new_n";
const LASTUSE: &str = "lastuse_version";

/// Returns whether lastuse is linked into the program, so that it need not be preloaded. A file that is no ELF binary, such
/// as a script, is assumed to start a program that loads ggml.
///
/// # Errors
/// The program would never call a preloaded library.
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
            "the program is linked statically, so no library can be preloaded; link liblastuse.a before libggml-base.a when \
             you build it (README, \"Use it in your program\")",
        );
    }
    if allocator {
        return refuse(
            "ggml is linked into it statically, so a preloaded library is never called; build it with a shared ggml \
             (llama.cpp: cmake -DBUILD_SHARED_LIBS=ON), or link liblastuse.a before libggml-base.a (README, \"Use it in \
             your program\")",
        );
    }
    Ok(false)
}

fn defines<'data, R: ReadRef<'data>>(elf: &ElfFile64<'data, Endianness, R>, name: &str) -> bool {
    elf.symbols().chain(elf.dynamic_symbols()).any(|symbol| symbol.is_definition() && symbol.name() == Ok(name))
}

/// Returns whether the program is started by the dynamic loader.
fn has_loader<'data, R: ReadRef<'data>>(elf: &ElfFile64<'data, Endianness, R>) -> bool {
    let header: &FileHeader64<Endianness> = elf.elf_header();
    let headers = header.program_headers(elf.endian(), elf.data());
    headers.is_ok_and(|headers| headers.iter().any(|header| header.p_type(elf.endian()) == PT_INTERP))
}
