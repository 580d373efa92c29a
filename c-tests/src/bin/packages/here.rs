//! What programs of this machine find of an installed lastuse: by CMake, by pkg-config, by the tool.

use std::path::Path;
use std::process::Command;

use lastuse_c_tests::packages::{Prefix, Tool, check_example, output_of};
use lastuse_c_tests::{Linked, Program, Result};
use lastuse_vendor::{Package, ggml};

/// Builds the examples on what is installed to a prefix, and has the tool run a program that knows nothing of lastuse, with
/// both of its libraries. `way` begins the lines that are printed.
///
/// # Errors
/// What does not hold, or the message of a build.
pub fn check_here(way: &str, tool: &Path, prefix: &Prefix) -> Result<()> {
    let ggml = ggml(Package::LlamaCpp)?;
    for builder in [Tool::Cmake, Tool::Make] {
        print!("{way}: the example of {builder:?}\n{}", check_example(builder, prefix, &ggml)?);
    }
    let sources = ["tests/support/plain_allocator.c"];
    let program = Program::build("packages-installed", &sources, &ggml, Linked::SharedGgml, &[])?;
    let mut command = Command::new(tool);
    // A library that is found elsewhere is unpacked there.
    command.args(["run", "--verbose", "--verify=memory"]).arg(program.path()).env("XDG_CACHE_HOME", "/dev/null");
    let text = output_of(command)?;
    for library in ["liblastuse.so", "liblastuse_guard.so"] {
        if !text.contains(library) {
            return Err(format!("lastuse run does not preload {library}:\n{text}"));
        }
    }
    let verified = text.lines().find(|line| line.starts_with("verification:") && line.ends_with("no defect"));
    let verified = verified.ok_or_else(|| format!("lastuse run does not verify the program:\n{text}"))?;
    println!("{way}: lastuse run --verify=memory: {verified}");
    Ok(())
}
