//! The program that tries random graphs.

use lastuse_vendor::Ggml;

use crate::{Lastuse, Linked, Program, Result};

/// Its source, relative to the folder of the C programs.
pub const FUZZ_SOURCES: [&str; 1] = ["src/fuzz_graphs.c"];

/// Builds it with upstream's allocator and lastuse's.
///
/// # Errors
/// The message of the compiler or the linker.
pub fn fuzz_program(name: &str, ggml: &Ggml, lastuse: &Lastuse) -> Result<Program> {
    Program::build(name, &FUZZ_SOURCES, ggml, Linked::Both(lastuse), &["-O2"])
}
