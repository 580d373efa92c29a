//! Our own llama-style program, linked without lastuse and with it.

use lastuse_c_tests::{Build, Linked, Program, Result, lastuse};
use lastuse_vendor::{Package, ggml};

use crate::table::{self, Measured};
use crate::threads;

const TO_DO_THE_SAME: &str = "\
To do the same to your own program:
  cargo build --release -p lastuse
  static ggml:  cc ... your objects ... -Wl,-u,ggml_gallocr_new_n target/release/liblastuse.a libggml-base.a ...
  shared ggml:  LD_PRELOAD=$PWD/target/release/liblastuse.so ./your-program";

/// Runs the program on both allocators.
///
/// # Errors
/// When something cannot be built, or the results differ.
pub fn run() -> Result<()> {
    let ggml = ggml(Package::LlamaCpp)?;
    let lastuse = lastuse(Build::Release)?;
    println!("c-tests/llama_style.c on ggml {}: 8 layers, width 1024, prompt 512, 64 decode steps", ggml.version);
    let measure = |name: &str, linked: Linked<'_>| {
        let program = Program::build(name, &["llama_style.c"], &ggml, linked, &[])?;
        let outcome = program.run(&["--machine", "--threads", &threads()])?;
        if outcome.code == Some(0) { Ok(Measured::from_lines(&outcome.stdout)) } else { Err(outcome.describe()) }
    };
    let on_ggml = measure("demo-ggml", Linked::Ggml)?;
    let on_lastuse = measure("demo-lastuse", Linked::LastuseArchive(&lastuse))?;
    table::print(&on_ggml, &on_lastuse)?;
    table::compare_hashes(&on_ggml, &on_lastuse)?;
    println!("Same bits in less memory.\n\n{TO_DO_THE_SAME}");
    Ok(())
}
