//! What `lastuse offload` promises for a device.

use lastuse_c_tests::{DENSE, PlacedCase, PlacedProgram, PlacedReport, PlacedRow, Result, sweep};

/// Budgets from nothing to all, in thousandths.
pub const MANY: &[u64] = &[0, 10, 20, 50, 120, 300, 500, 700, 970];

/// A few of them.
pub const FEW: &[u64] = &[0, 20, 120, 500, 970];

/// Returns a dense model on a device, first with these budgets. Mixtures of experts crash some versions of llvmpipe, also
/// without lastuse.
pub fn places(device: &'static [&'static str], budgets: &'static [u64]) -> Vec<PlacedCase> {
    let dense = PlacedCase {
        name: "dense, on the device",
        model: DENSE,
        program: "-t 1",
        devices: device,
        properties: "",
        has_pipelines: false,
        place: "",
        kind: None,
        parts: budgets,
    };
    let few = PlacedCase { parts: FEW, ..dense };
    vec![
        dense,
        PlacedCase { name: "dense, no operator offload", place: "--no-op-offload", ..few },
        PlacedCase { name: "dense, no flash attention", program: "-t 1 -fa off", ..few },
        PlacedCase { name: "dense, whole layers", place: "--layers", ..few },
        PlacedCase { name: "dense, one command, layers", kind: Some("layers"), ..few },
        PlacedCase { name: "dense, one command, tensors", kind: Some("tensors"), ..few },
    ]
}

/// Asks for offload plans of these cases, runs llama.cpp with each, and adds what came of it.
///
/// # Errors
/// When something cannot be run.
pub fn promises(host: &str, cases: &[PlacedCase], program: &PlacedProgram, report: &mut PlacedReport) -> Result<()> {
    for case in cases {
        eprintln!("[{host}] {}", case.name);
        let progress = |row: &PlacedRow| {
            let budgets: Vec<String> = row.budgets.iter().map(u64::to_string).collect();
            let is_right = if row.wrong.is_empty() { "passed" } else { "FAILED" };
            eprintln!("[{host}]   {} bytes: {is_right}", budgets.join(" + "));
        };
        report.add(case, &sweep(case, program, progress)?);
    }
    Ok(())
}
