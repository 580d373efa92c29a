//! The placement that costs a device least, among those of the same size.

use crate::ggml::read::ReadGraph;
use crate::graph::kernels::{Kernels, prefer_cheaper};
use crate::graph::{Graph, GraphPlan, Requests, TensorId};

use super::types::BufferTypes;

/// Replaces the placements in buffers of devices by others of the same size that cost them less, where some are found.
pub fn prefer_cheaper_on_devices(
    types: &BufferTypes,
    reading: &ReadGraph<'_>,
    requests: Requests<'_>,
    plan: &mut GraphPlan,
) {
    let mut graph = None;
    for (buffer, buffer_type) in (0..).zip(types.types()) {
        let device = buffer_type.device();
        if !Kernels::matter_on(device) {
            continue;
        }
        let graph = &*graph.get_or_insert_with(|| with_all_layouts(reading));
        let runtime = buffer_type.runtime();
        let live = |id: TensorId| reading.tensors[id as usize];
        let alignment = plan.problems[buffer as usize].alignment();
        let desc = |id: TensorId| runtime.description(live(id)).into();
        if let Some(kernels) = Kernels::find(graph, requests, (buffer, device, alignment), &desc) {
            prefer_cheaper(plan, graph, buffer, &kernels, &|id| runtime.nbytes(live(id)));
        }
    }
}

/// Returns the graph with the layouts of constants too, which planning does not read.
fn with_all_layouts(reading: &ReadGraph<'_>) -> Graph {
    let mut graph = Graph::clone(&reading.graph);
    for (id, tensor) in (0..).zip(&reading.tensors) {
        if !graph.has_layout(id) {
            graph.set_layout(id, tensor.layout());
        }
    }
    graph
}
