//! What `lastuse offload` promises for the Vulkan device and for devices that the program registers.

use lastuse_c_tests::{
    DENSE, PlacedCase, PlacedProgram, PlacedReport, PlacedRow, Result, head_on_host, on_any_machine, sweep,
};
use lastuse_vendor::Llama;

use super::{VISIBLE, host_folder};

/// Where tensors start on llvmpipe.
const ALIGNMENT: u64 = 16;

/// Asks for offload plans on the Vulkan device, and on devices that the program registers, and runs llama.cpp with each.
/// Returns the report, and the number of failed checks.
///
/// # Errors
/// When something cannot be run.
pub fn test(llama: &Llama) -> Result<(String, usize)> {
    // Devices that the program registers must be the only ones.
    let registered = PlacedProgram::build("placed-on-vulkan", llama, host_folder(), vec![(VISIBLE.0, "")])?;
    let vulkan = PlacedProgram::build("placed-on-vulkan", llama, host_folder(), vec![VISIBLE])?;
    let mut report = PlacedReport::default();
    for case in on_vulkan() {
        run(&case, &vulkan, &mut report)?;
    }
    for case in on_any_machine() {
        run(&case, &registered, &mut report)?;
    }
    let whole = on_vulkan()[0];
    report.add_head("dense, Vulkan", &head_on_host(&whole, &vulkan, ALIGNMENT)?);
    Ok((report.text(), report.wrong().len()))
}

/// Returns a dense model on the Vulkan device. Mixtures of experts crash some versions of llvmpipe, also without lastuse.
fn on_vulkan() -> Vec<PlacedCase> {
    let dense = PlacedCase {
        name: "dense, Vulkan",
        model: DENSE,
        program: "-t 1",
        devices: &["Vulkan0"],
        properties: "",
        has_pipelines: false,
        place: "",
        parts: &[0, 10, 20, 50, 120, 300, 500, 700, 970],
    };
    let few = PlacedCase { parts: &[0, 20, 120, 500, 970], ..dense };
    vec![
        dense,
        PlacedCase { name: "dense, Vulkan, no operator offload", place: "--no-op-offload", ..few },
        PlacedCase { name: "dense, Vulkan, no flash attention", program: "-t 1 -fa off", ..few },
        PlacedCase { name: "dense, Vulkan, whole layers", place: "--layers", ..few },
    ]
}

fn run(case: &PlacedCase, program: &PlacedProgram, report: &mut PlacedReport) -> Result<()> {
    eprintln!("[vulkan] {}", case.name);
    let progress = |row: &PlacedRow| {
        let budgets: Vec<String> = row.budgets.iter().map(u64::to_string).collect();
        let is_right = if row.wrong.is_empty() { "passed" } else { "FAILED" };
        eprintln!("[vulkan]   {} bytes: {is_right}", budgets.join(" + "));
    };
    let rows = sweep(case, program, progress)?;
    report.add(case, &rows);
    Ok(())
}
