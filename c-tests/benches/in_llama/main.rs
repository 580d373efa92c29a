//! Both allocators inside llama.cpp: on its own graphs, as it has built them, with weights, caches and graph in the
//! contexts that it has made.
//!
//! `cargo bench -p lastuse-c-tests --bench in_llama`; `-- --help` lists the options.

mod measure;
mod table;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use lastuse_c_tests::{Result, bench_of_names};
use measure::{LAYOUTS, Measured, Programs};
use table::table;

const HELP: &str = "\
Compares lastuse with ggml's own allocator inside llama.cpp, and prints a table in Markdown: time of lastuse divided by that of
ggml's own allocator. Nothing is computed, and models take no memory.

Usage: cargo bench -p lastuse-c-tests --bench in_llama -- [MODEL]...

  MODEL     only models whose names begin so, such as \"llama\" or \"qwen3moe\"

Exit codes: 0 done, 1 something failed, 2 wrong usage.";

/// Dense, with experts, and attention with state spaces.
const MODELS: [&str; 3] = ["llama", "qwen3moe", "falcon-h1"];
const LAYERS: [&str; 2] = ["8", "48"];

fn main() -> ExitCode {
    bench_of_names("in_llama", HELP, run)
}

fn run(names: &[String]) -> Result<()> {
    let is_wanted = |model: &&&str| names.is_empty() || names.iter().any(|name| model.starts_with(name.as_str()));
    let models: Vec<&str> = MODELS.iter().filter(is_wanted).copied().collect();
    if models.is_empty() {
        return Err(format!(
            "no model has a name that begins with {}; there are {}",
            names.join(" or "),
            MODELS.join(", ")
        ));
    }
    let programs = Programs::build()?;
    let mut measured = Vec::new();
    for model in models {
        for layers in LAYERS {
            measured.push((model, layers, measure_model(&programs, model, layers)?));
        }
    }
    println!("{}", table(&measured));
    Ok(())
}

fn measure_model(programs: &Programs, model: &str, layers: &str) -> Result<Measured> {
    let progress = |done: usize| show_progress(&format!("{model}, {layers} layers: {done}/{}", LAYOUTS + 1));
    let file = programs.write_model(model, layers)?;
    let measured = programs.measure(&file, progress);
    let _ = std::fs::remove_file(Path::new(&file));
    show_progress("");
    measured
}

fn show_progress(text: &str) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r\x1b[K{text}");
    }
}
