//! A token embedding that is the output head too: llama.cpp has it on the host, of which runs read a few rows there, and once more
//! on the device of the output.

use crate::graph::snapshot::{Snapshot, TensorInfo};
use crate::graph::{Edited, GraphEdit, Op, TensorId};

/// llama.cpp's name of the token embedding.
pub const EMBEDDING: &str = "token_embd.weight";

/// Returns the graph of a program that has the embedding once as llama.cpp would have it with its output on a device: nodes that
/// read its rows have a tensor of the same name for themselves. Other graphs stay as they are.
#[must_use]
pub fn untied(snapshot: Snapshot) -> Snapshot {
    let graph = &snapshot.graph;
    let is_embedding = |id: &TensorId| {
        let tensor = graph.tensor(*id);
        tensor.external && tensor.view.is_none() && snapshot.tensors[*id as usize].name == EMBEDDING
    };
    let mut embeddings = graph.leafs().iter().copied().filter(is_embedding);
    let (Some(tied), None) = (embeddings.next(), embeddings.next()) else { return snapshot };
    let readers = graph.nodes().iter().copied().filter(|&node| graph.sources(node).contains(&tied));
    let (of_rows, others): (Vec<_>, Vec<_>) =
        readers.partition(|&node| graph.tensor(node).op == Op::GetRows && graph.sources(node)[0] == tied);
    if of_rows.is_empty() || others.is_empty() {
        return snapshot;
    }
    let mut edit = GraphEdit::new(graph);
    let embedding = edit.copy(tied);
    of_rows.into_iter().for_each(|node| edit.replace_source(node, 0, embedding));
    let at = edit.leafs.iter().position(|&leaf| leaf == tied).expect("it was found there");
    edit.leafs.insert(at, embedding);
    let edited = edit.finish();
    let next = snapshot.tensors.iter().map(|info| info.id).max().map_or(0, |last| last + 1);
    let info = |id: TensorId| {
        let info = snapshot.tensors[edited.origins[id as usize] as usize].clone();
        if edited.is_new(id) { TensorInfo { id: next, ..info } } else { info }
    };
    let tensors = (0..).take(edited.origins.len()).map(info).collect();
    let Edited { graph, .. } = edited;
    Snapshot { tensors, graph, ..snapshot }
}
