//! `cargo demo`: a real ggml program on ggml's own allocator and on lastuse, side by side.

mod llama_cpp;
mod llama_style;
mod memory;
mod table;

use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
Runs a real ggml program on ggml's own graph allocator and on lastuse, five times each in turns, and compares.

Usage: cargo demo [llama | memory [MODEL.gguf]]

  (nothing)   a llama-style C program, linked once without lastuse and once with it
  llama       llama.cpp itself, unmodified, as it is and with lastuse preloaded
  memory      the memory of a whole llama.cpp process with a context of 32,768 tokens on the CPU: of MODEL, or of
              a model with the shapes of Llama 3 8B in Q4_0 and weights of 0, which takes 10 GiB of memory

Times are medians. Where a run on one allocator is within the range of the runs on the other, there is no difference
within noise.

ggml and llama.cpp come from a pinned registry package and are compiled the first time, which takes a minute or
two. Exit codes: 0 same results, 1 different results or something failed, 2 wrong usage.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        [] => llama_style::run(),
        ["llama"] => llama_cpp::run(),
        ["memory"] => memory::run(None),
        ["memory", model] => memory::run(Some(Path::new(model))),
        ["--help" | "-h" | "help"] => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!("demo: {:?} is not known\n\n{HELP}", other.join(" "));
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("demo: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the number of threads for both runs: it must be equal, since some kernels sum in another order with more
/// threads. One core is left to the rest of the machine, since ggml's threads wait for each other by spinning.
fn threads() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores - 1).max(1).to_string()
}
