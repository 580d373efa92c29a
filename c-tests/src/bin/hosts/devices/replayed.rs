//! The kernels and barriers of captured graphs that lastuse replays, to be compared with the log of a backend.

use std::path::Path;

use lastuse::graph::TensorId;
use lastuse::graph::kernels::KernelCosts;
use lastuse::graph::snapshot::Snapshot;
use lastuse_c_tests::{Result, graphs_in, read_graph};

/// Replays each graph in a folder once, on the addresses that it had. Returns the sums for the buffers of a device.
///
/// # Errors
/// When there is no graph, one cannot be read, or none has nodes on the device.
pub fn replayed(folder: &Path, device: &str) -> Result<KernelCosts> {
    let mut sum = None;
    for path in graphs_in(folder)? {
        let found = costs(&read_graph(&path)?, device)?;
        for found in found {
            let sum: &mut KernelCosts = sum.get_or_insert_default();
            sum.fused += found.fused;
            sum.not_fused += found.not_fused;
            sum.barriers += found.barriers;
        }
    }
    sum.ok_or_else(|| format!("{}: no graph on {device} was captured", folder.display()))
}

fn costs(snapshot: &Snapshot, device: &str) -> Result<Vec<KernelCosts>> {
    let plan = snapshot.plan_as_recorded().map_err(|error| error.to_string())?;
    let address = |root: TensorId| plan.placed(root).map(|(address, _)| address);
    let on_device = (0..).zip(&snapshot.buffers).filter(|(_, buffer)| buffer.name == device);
    Ok(on_device.filter_map(|(buffer, _)| snapshot.kernel_costs(buffer, [&address])).map(|[costs]| costs).collect())
}
