//! Reorders the nodes of a live graph for a smaller peak.

use crate::graph::order::{Hazards, ReorderEffort, Reordering, reorder};
use crate::graph::{PlanError, Requests};

use crate::ggml::extensions::compute_buffer::ComputeBuffer;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::process::settings::settings;
use crate::ggml::read::memory::same_memory;
use crate::ggml::read::requested::Requested;
use crate::ggml::read::{ReadGraph, read};
use crate::ggml::retention::LiveRetention;

/// An order for the nodes of a live graph.
#[derive(Debug)]
pub struct Reordered<'g> {
    /// The nodes in the new order.
    pub nodes: Vec<TensorRef<'g>>,
    /// Its peak, compared with the old order.
    pub found: Reordering,
}

/// Searches for an order of the nodes of `graph` with a smaller peak of live bytes, all in memory of `buffer_type`. The
/// graph itself is not changed. Tensors whose names the settings retain stay live to the end.
///
/// # Errors
/// [`PlanError`] when sizes overflow.
pub fn reorder_nodes<'g>(
    runtime: &'static Runtime,
    graph: GraphRef<'g>,
    buffer_type: Option<BufferType>,
    effort: ReorderEffort,
) -> Result<Reordered<'g>, PlanError> {
    let buffer = ComputeBuffer::new(runtime, buffer_type);
    let mut reading = read(runtime, &buffer.types(), graph, &Requested::default());
    LiveRetention::of_names(settings().retain).retain_in(&mut reading.graph, graph);
    let hazards = hazards_of(runtime, &reading);
    let (leafs, nodes) = (vec![0; graph.leafs.len()], vec![0; graph.nodes.len()]);
    let requests = Requests { leafs: &leafs, nodes: &nodes };
    let mut sizes = buffer.sizes(&reading.tensors);
    let found = reorder(&reading.graph, &[buffer.spec()], requests, &mut sizes, &hazards, effort)?;
    let nodes = found.order.iter().map(|&step| graph.nodes[step as usize]).collect();
    Ok(Reordered { nodes, found })
}

/// Returns which nodes of a graph must not be swapped.
pub fn hazards_of(runtime: &Runtime, reading: &ReadGraph<'_>) -> Hazards {
    Hazards::new(&reading.graph, &same_memory(runtime, reading))
}
