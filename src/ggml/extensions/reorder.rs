//! Reorders the nodes of a live graph for a smaller peak.

use crate::graph::PlanError;
use crate::graph::order::{Hazards, ReorderEffort, Reordering, reorder};

use crate::ggml::extensions::pass::{GivenGraph, same_memory};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::read::ReadGraph;

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
    let given = GivenGraph::new(runtime, graph, buffer_type);
    let hazards = hazards_of(runtime, &given.reading);
    let specs = [given.spec()];
    let found = reorder(&given.reading.graph, &specs, given.requests(), &mut given.sizes(), &hazards, effort)?;
    let nodes = found.order.iter().map(|&step| graph.nodes[step as usize]).collect();
    Ok(Reordered { nodes, found })
}

/// Returns which nodes of a graph must not be swapped.
pub fn hazards_of(runtime: &Runtime, reading: &ReadGraph<'_>) -> Hazards {
    Hazards::new(&reading.graph, &same_memory(runtime, reading))
}
