//! Our own llama-style program, linked without lastuse and with it.

use lastuse_c_tests::{Build, Linked, Program, Result, lastuse};
use lastuse_vendor::{Package, ggml};

use crate::table::{self, Measured, Row, in_turns};
use crate::threads;

const TO_DO_THE_SAME: &str = "\
To do the same to your own program:
  cargo build --release -p lastuse
  static ggml:  cc ... your objects ... -Wl,-u,ggml_gallocr_new_n target/release/liblastuse.a libggml-base.a ...
  shared ggml:  LD_PRELOAD=$PWD/target/release/liblastuse.so ./your-program";

/// Rows of the table that compares a graph with its copies and without.
const COPY_ROWS: [Row; 7] = [
    ("copies into the cache", "cache_copies", 0),
    ("copied a prompt, bytes", "copied_bytes", 0),
    ("time of these copies, us", "copy_us", 1),
    ("compute buffer, bytes", "compute_buffer_bytes", 0),
    ("time of alloc_graph, us", "alloc_graph_us", 1),
    ("prompt, tokens/s", "prompt_tokens_per_s", 1),
    ("decode, tokens/s", "decode_tokens_per_s", 1),
];

/// Runs the program on both allocators, and then with copies into its cache and without.
///
/// # Errors
/// When something cannot be built, or the results differ.
pub fn run() -> Result<()> {
    let ggml = ggml(Package::LlamaCpp)?;
    let lastuse = lastuse(Build::Release)?;
    println!("c-tests/llama_style.c on ggml {}: 8 layers, width 1024, prompt 512, 64 decode steps", ggml.version);
    let build = |name: &str, linked| Program::build(name, &["llama_style.c"], &ggml, linked, &[]);
    let programs = [build("demo-ggml", Linked::Ggml)?, build("demo-lastuse", Linked::LastuseArchive(&lastuse))?];
    let on_shared = build("llama_style", Linked::SharedGgml)?;
    let measure = |program: &Program, more: &[&str]| {
        let outcome = program.run(&[&["--machine", "--threads", &threads()], more].concat())?;
        if outcome.code == Some(0) { Ok(Measured::from_lines(&outcome.stdout)) } else { Err(outcome.describe()) }
    };
    let [on_ggml, on_lastuse] = programs.each_ref().map(|program| move |more: &[&str]| measure(program, more));
    let (first, second) = in_turns(|| on_ggml(&[]), || on_lastuse(&[]))?;
    table::print(&first, &second)?;
    table::compare_hashes(&first, &second)?;
    println!("Same bits in less memory.\n");
    compare_copies(on_lastuse)?;
    println!("{TO_DO_THE_SAME}");
    println!("  lastuse run {}    # this program on a shared ggml", on_shared.path().display());
    Ok(())
}

/// Compares a cache of the computed type that rows are copied into with the graph after lastuse_graph_remove_copies,
/// where they are computed in the cache.
fn compare_copies(run: impl Fn(&[&str]) -> Result<Measured>) -> Result<()> {
    println!("Once more with an F32 cache that new rows are copied into, and with lastuse_graph_remove_copies");
    let with = |copies: &str| run(&["--kv-type", "f32", "--kv-write", "copy", "--copies", copies]);
    let (kept, removed) = in_turns(|| with("kept"), || with("removed"))?;
    table::print_rows(["copies kept", "copies removed"], &COPY_ROWS, &kept, &removed)?;
    table::compare_hashes(&kept, &removed)?;
    println!("Same bits with fewer copies.\n");
    Ok(())
}
