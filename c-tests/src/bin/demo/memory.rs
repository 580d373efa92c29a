//! The memory of a whole llama.cpp process with a large context, as it is and with lastuse preloaded.

use std::path::Path;

use lastuse_c_tests::{Build, Result, lastuse};
use lastuse_tool::report::as_mib;
use lastuse_vendor::llama;

use crate::llama_cpp::Demo;
use crate::table::{self, Measured, Runs};

/// The shapes of Llama 3 8B.
const LLAMA_3_8B: [&str; 16] = [
    "--layers",
    "32",
    "--width",
    "4096",
    "--heads",
    "32",
    "--kv-heads",
    "8",
    "--ffn",
    "14336",
    "--vocab",
    "128256",
    "--context",
    "131072",
    "--type",
    "q4_0-zeros",
];
const SIZES: [&str; 6] = ["--prompt", "400", "--tokens", "16", "--context", "32768"];

/// Runs the model on both allocators, and prints what the processes took.
///
/// # Errors
/// When something cannot be built, the program fails, or the results differ.
pub fn run(model: Option<&Path>) -> Result<()> {
    let llama = llama()?;
    let lastuse = lastuse(Build::Release)?;
    let demo = Demo::prepare(&llama, model, &LLAMA_3_8B)?;
    let name = model.map_or("shapes of Llama 3 8B, Q4_0, weights of 0".into(), Path::to_string_lossy);
    println!(
        "llama.cpp with ggml {}, unmodified, on the CPU: {name}; context 32,768, a prompt of 400 tokens and 16 more",
        llama.ggml.version
    );
    let on_ggml = demo.generate("ggml", None, &SIZES)?;
    let on_lastuse = demo.generate("lastuse", Some(&lastuse), &SIZES)?;
    println!("{:26}{:>14}{:>14}", "MiB", "ggml-alloc", "lastuse");
    for (label, key) in
        [("process, peak resident", "peak_resident"), ("compute buffer, reserved", "compute_buffer_bytes")]
    {
        let [before, after] = [bytes(&on_ggml, key)?, bytes(&on_lastuse, key)?];
        let change = 100.0 * (after / before - 1.0);
        println!("{label:26}{:>14.1}{:>14.1}{change:>+8.0} %", as_mib(before), as_mib(after));
    }
    table::compare_hashes(&Runs::of(on_ggml), &Runs::of(on_lastuse))?;
    demo.compare_logits()?;
    demo.clean_up();
    Ok(())
}

fn bytes(run: &Measured, key: &str) -> Result<f64> {
    run.get(key).and_then(|value| value.parse().ok()).ok_or_else(|| format!("the program did not print {key}"))
}
