//! Whether lastuse can replace the ggml-alloc of a program.

use std::path::Path;

use super::failure::NotStarted;
use crate::elf::Elf;

/// A function that ggml-alloc and lastuse have, and one that only lastuse has.
pub const ALLOCATOR: &str = "ggml_gallocr_new_n";
pub const LASTUSE: &str = "lastuse_version";

/// Returns whether lastuse is linked into the program, so that it need not be preloaded. A file that is not an ELF
/// binary, such as a script, is assumed to start a program that loads ggml.
///
/// # Errors
/// The program would never call a preloaded library.
pub fn has_lastuse(program: &Path) -> Result<bool, NotStarted> {
    let Some(elf) = Elf::open(program) else { return Ok(false) };
    let [allocator, lastuse] = elf.uses([ALLOCATOR, LASTUSE]).map(|uses| uses.defines);
    let refuse = |why: &str| Err(NotStarted::failed(format!("{}: {why}", program.display())));
    if allocator && lastuse {
        return Ok(true);
    }
    if !elf.has_loader() {
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
