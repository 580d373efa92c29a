//! The program that tries random graphs.

use lastuse_vendor::Ggml;

use crate::{Lastuse, Linked, Program, Result, sources};

/// Its files.
pub fn fuzz_sources() -> Vec<String> {
    let supports = ["fuzz", "side_by_side", "own_memory", "random_graph", "plan_check", "dummy_buffer"];
    sources("fuzz_graphs", &supports)
}

/// Compiles it, with upstream's allocator beside that of lastuse.
///
/// # Errors
/// What the compiler said.
pub fn fuzz_program(name: &str, ggml: &Ggml, lastuse: &Lastuse) -> Result<Program> {
    let sources = fuzz_sources();
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    Program::build(name, &sources, ggml, Linked::Both(lastuse), &["-O2"])
}
