//! The cost of a plan's addresses on the device that computes in the buffer.

use std::fmt::{self, Write};

use crate::graph::kernels::KernelCosts;
use crate::graph::{BufferIndex, TensorId};

use super::change::counted;
use super::planned::PlannedGraph;

/// Fused kernels and barriers of a device, replayed as its backend decides on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct KernelUse {
    /// With the plan.
    pub planned: KernelCosts,
    /// With the plan of ggml-alloc; `None` if the sum of the tensors overflows.
    pub ggml_alloc: Option<KernelCosts>,
    /// If each tensor had its own memory: no placement costs less.
    pub without_reuse: KernelCosts,
}

/// Returns the cost of a plan's addresses on the device of a buffer.
pub fn kernels(planned: PlannedGraph<'_>, buffer: usize) -> Option<KernelUse> {
    let PlannedGraph { snapshot, plan, .. } = planned;
    let buffer = BufferIndex::try_from(buffer).ok()?;
    let at_plan = |root: TensorId| plan.placed(root).map(|(address, _)| address);
    let [planned, without_reuse] = snapshot.kernel_costs(buffer, [&at_plan, &|_| None])?;
    let ggml_alloc = snapshot.plan_as_ggml().ok().and_then(|plan| {
        let [costs] = snapshot.kernel_costs(buffer, [&|root| plan.placed(root).map(|(address, _)| address)])?;
        Some(costs)
    });
    Some(KernelUse { planned, ggml_alloc, without_reuse })
}

/// Writes the costs as a sentence for each placement.
pub fn write_kernels(out: &mut String, kernels: &KernelUse) -> fmt::Result {
    let KernelUse { planned, ggml_alloc, without_reuse } = kernels;
    writeln!(out, "\n  Kernels of the device: {}.", costs(planned))?;
    if let Some(ggml_alloc) = ggml_alloc {
        writeln!(out, "  With the addresses of ggml-alloc: {}.", costs(ggml_alloc))?;
    }
    writeln!(out, "  If no memory were used twice: {}.", costs(without_reuse))
}

fn costs(costs: &KernelCosts) -> String {
    let KernelCosts { fused, not_fused, barriers } = costs;
    let sequences = counted((fused + not_fused) as usize, "sequence", "sequences");
    let barriers = counted(*barriers as usize, "barrier", "barriers");
    format!("{fused} of {sequences} fused, {barriers}")
}
