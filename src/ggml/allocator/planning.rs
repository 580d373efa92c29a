//! Plans a graph that was read.

use crate::ggml::read::ReadGraph;
use crate::ggml::read::requested::Requested;
use crate::graph::{BufferIndex, GraphPlan, PlanError, Requests, TensorId, plan_with};

use super::kernels::prefer_cheaper_on_devices;
use super::types::BufferTypes;

/// Plans the graph of `reading` for the requested buffers. Debug builds simulate every plan.
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
///
/// # Panics
/// In debug builds, if the plan is wrong.
pub fn plan_reading(
    types: &BufferTypes,
    reading: &ReadGraph<'_>,
    requested: &Requested,
) -> Result<GraphPlan, PlanError> {
    let buffers = requested.of_all(&reading.graph);
    let requests = Requests { leafs: &buffers.leafs, nodes: &buffers.nodes };
    let mut plan = match reading.sizes_by_layout(types.types()) {
        Some(sizes) => plan_with(&reading.graph, types.specs(), requests, &mut |tensor: TensorId, _| sizes(tensor)),
        None => plan_with(&reading.graph, types.specs(), requests, &mut |tensor: TensorId, buffer: BufferIndex| {
            reading.alloc_size(types.types(), requested, tensor, buffer)
        }),
    }?;
    prefer_cheaper_on_devices(types, reading, requests, &mut plan);
    #[cfg(debug_assertions)]
    check(types, reading, &plan);
    Ok(plan)
}

#[cfg(debug_assertions)]
fn check(types: &BufferTypes, reading: &ReadGraph<'_>, plan: &GraphPlan) {
    let runtime = types.types().first().map(|buffer_type| buffer_type.runtime());
    let nbytes: Vec<_> =
        reading.tensors.iter().map(|&tensor| runtime.map_or(0, |runtime| runtime.nbytes(tensor))).collect();
    if let Err(corruption) = crate::graph::simulate(&reading.graph, plan, &nbytes) {
        panic!("the plan is wrong: {corruption}");
    }
}
