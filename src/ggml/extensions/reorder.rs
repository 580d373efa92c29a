//! Reorders the nodes of a live graph for a smaller peak.

use crate::graph::Effect;
use crate::graph::order::{Hazards, ReorderEffort, Reordering, reorder};
use crate::graph::{BufferIndex, BufferSpec, PlanError, Requests, Rules, TensorId};
use crate::placement::Bytes;

use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::process::settings::{Settings, settings};
use crate::ggml::read::memory::same_memory;
use crate::ggml::read::read;
use crate::ggml::read::requested::Requested;
use crate::ggml::retention::LiveRetention;

/// The alignment assumed for an unknown buffer type.
pub const UNKNOWN_ALIGNMENT: Bytes = 32;

/// Returns what is assumed of an unknown buffer type: ggml's CPU buffer type requires no more.
pub fn unknown_type(settings: &Settings) -> BufferSpec {
    BufferSpec { alignment: UNKNOWN_ALIGNMENT, max_chunk: None, rules: Rules::ALL, effort: settings.effort }
}

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
    runtime: &Runtime,
    graph: GraphRef<'g>,
    buffer_type: Option<BufferType>,
    effort: ReorderEffort,
) -> Result<Reordered<'g>, PlanError> {
    let types: Vec<BufferType> = buffer_type.into_iter().collect();
    let mut reading = read(runtime, &types, graph, &Requested::default());
    LiveRetention::of_names(settings().retain).retain_in(&mut reading.graph, graph);
    let effects: Vec<Effect> = reading.tensors.iter().map(|tensor| runtime.operations.effect(tensor.op())).collect();
    let hazards = Hazards::new(&reading.graph, &effects, &same_memory(runtime, &reading));
    let (leafs, nodes) = (vec![0; graph.leafs.len()], vec![0; graph.nodes.len()]);
    let requests = Requests { leafs: &leafs, nodes: &nodes };
    let settings = settings();
    let buffers = [buffer_type
        .map_or_else(|| unknown_type(&settings), |buffer_type| buffer_type.spec(&settings.rules, settings.effort))];
    let mut sizes = |id: TensorId, _: BufferIndex| {
        let tensor = reading.tensors[id as usize];
        buffer_type.map_or_else(|| runtime.nbytes(tensor), |buffer_type| buffer_type.alloc_size(tensor))
    };
    let found = reorder(&reading.graph, &buffers, requests, &mut sizes, &hazards, effort)?;
    let nodes = found.order.iter().map(|&step| graph.nodes[step as usize]).collect();
    Ok(Reordered { nodes, found })
}
