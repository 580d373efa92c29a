//! llama.cpp with some layers on a device, and a budget for what the CPU computes: the backends of the nodes stay, and so do the bits.

use lastuse_c_tests::{DENSE, PlacedProgram, Result, Variable, aligned_table};

use super::Findings;

/// The arguments of a run: without flash attention, so that the CPU computes scores of attention.
const CASES: [&str; 2] = [
    "-ngl 1 -fa off --prompt 300 -ub 256 -c 4096 --no-op-offload",
    "-ngl 4 -fa off --prompt 300 -ub 256 -c 2048 --no-op-offload",
];

/// Bytes for the CPU, and none for the device.
const BUDGET: Variable = ("LASTUSE_BUDGET", "CPU:12MiB");

/// The log tells what was computed in tiles.
const LOG: Variable = ("LASTUSE_LOG", "info");

/// Runs all cases: ggml-alloc, and with the budget.
///
/// # Errors
/// When something cannot be run.
pub fn test(program: &PlacedProgram, device: &str, findings: &mut Findings) -> Result<()> {
    let model = program.model(&DENSE)?;
    let mut table = vec![["arguments", "in tiles, on the CPU", "logits"].map(str::to_owned).to_vec()];
    for arguments in CASES {
        let all: Vec<String> = format!("-t 1 {arguments} --tokens 6").split_whitespace().map(str::to_owned).collect();
        let run = |with_lastuse: bool, more: &[Variable]| program.run_with(&model, &all, with_lastuse, more);
        let (plain, ours) = (run(false, &[])?, run(true, &[BUDGET, LOG])?);
        let are_equal = plain.is_complete() && ours.is_complete() && plain.logits == ours.logits;
        let tiled = ours.log().lines().find_map(|line| line.split_once("intermediates are computed in tiles: "));
        if !are_equal || tiled.is_none() {
            findings.wrong.push(format!("{device}, a budget for the CPU, {arguments}: {}", ours.describe()));
        }
        let bytes = tiled.map_or("none", |(_, bytes)| bytes).to_owned();
        let logits = if are_equal { "equal" } else { "OTHER" };
        table.push(vec![arguments.to_owned(), bytes, logits.to_owned()]);
    }
    let title = format!("{device}, llama.cpp with a budget for the CPU");
    findings.add(&format!("\n{title}\n\n{}", aligned_table(&table, 1)));
    Ok(())
}
