//! Labels of captured graphs, which tell them apart.

use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{Flags, TensorId, shape_label};

/// The start of the label that all graphs have which lastuse captured.
const CAPTURED: &str = "written by lastuse ";

/// Returns the graph with a distinct label, where it has that of all captured graphs: the label of its input goes
/// before it.
pub fn with_label(mut snapshot: Snapshot) -> Snapshot {
    if let (true, Some(shape)) = (snapshot.label.starts_with(CAPTURED), shape_of(&snapshot)) {
        snapshot.label = format!("{shape} ({})", snapshot.label);
    }
    snapshot
}

/// Returns a label of the input of a graph: its tokens, its largest input, or its result where it has no input.
pub fn shape_of(snapshot: &Snapshot) -> Option<String> {
    let graph = &snapshot.graph;
    let named = |&id: &TensorId| (snapshot.tensors[id as usize].name.clone(), graph.layout(id).ne);
    let inputs = graph.leafs().iter().filter(|&&id| graph.tensor(id).flags.has(Flags::INPUT));
    shape_label(inputs.map(named)).or_else(|| shape_label(graph.nodes().last().map(named)))
}
