//! Which tensors of several graphs are one.

use std::collections::{HashMap, HashSet};

use crate::graph::TensorId;
use crate::graph::snapshot::Snapshot;
use crate::placement::Bytes;

use super::names::is_unnamed;
use super::reads::Reads;

/// Identifies a weight or a cache among those of all graphs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    name: String,
    among: Among,
    /// How many before it, in its graph, have this name among the same graphs.
    number: u32,
}

/// Among which graphs a name identifies a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Among {
    /// All: the program has named it.
    All,
    /// All, where it has these bytes: a node of one of them writes to it. One graph may fill a cache, and another read it.
    Written(Bytes),
    /// Those with the same unnamed tensors as this one. ggml names a tensor by its place in a graph, so each scheduler of a
    /// program may have its "leaf_0".
    LikeGraph(usize),
}

/// The weights and caches of graphs with what identifies them.
#[derive(Clone, Debug)]
pub struct Identities<'s> {
    snapshots: &'s [Snapshot],
    /// The names and bytes of unnamed tensors that nodes write to.
    written: HashSet<(&'s str, Bytes)>,
    /// By graph: the first one with the same unnamed tensors.
    alike: Vec<usize>,
}

impl<'s> Identities<'s> {
    /// For graphs, and the tensors that the nodes of each read and write.
    pub fn of(snapshots: &'s [Snapshot], reads: &[Reads]) -> Self {
        let lists: Vec<Vec<(TensorId, (&str, Bytes))>> = snapshots.iter().map(unnamed).collect();
        let with_reads = lists.iter().zip(reads);
        let written = with_reads.flat_map(|(list, reads)| {
            list.iter().filter(|(id, _)| reads.is_written[*id as usize]).map(|&(_, tensor)| tensor)
        });
        let tensors = |list: &[(TensorId, (&'s str, Bytes))]| list.iter().map(|&(_, tensor)| tensor).collect();
        let lists: Vec<Vec<(&str, Bytes)>> = lists.iter().map(|list| tensors(list)).collect();
        let first = |list| lists.iter().position(|other| other == list).unwrap_or(0);
        Self { snapshots, written: written.collect(), alike: lists.iter().map(first).collect() }
    }

    /// Returns the weights and caches of a graph.
    pub fn in_graph(&self, graph: usize) -> impl Iterator<Item = (TensorId, Identity)> {
        let mut numbers: HashMap<(String, Among), u32> = HashMap::new();
        let snapshot = &self.snapshots[graph];
        roots(snapshot).map(move |id| {
            let info = &snapshot.tensors[id as usize];
            let among = match (is_unnamed(&info.name), self.written.contains(&(&*info.name, info.size))) {
                (false, _) => Among::All,
                (true, true) => Among::Written(info.size),
                (true, false) => Among::LikeGraph(self.alike[graph]),
            };
            let next = numbers.entry((info.name.clone(), among)).or_default();
            let number = *next;
            *next += 1;
            (id, Identity { name: info.name.clone(), among, number })
        })
    }
}

/// Returns the tensors that have memory before the graph runs, but for views.
fn roots(snapshot: &Snapshot) -> impl Iterator<Item = TensorId> {
    let tensors = (0..).zip(snapshot.graph.tensors());
    tensors.filter(|(_, tensor)| tensor.external && tensor.view.is_none()).map(|(id, _)| id)
}

/// Returns the names and bytes of the weights and caches that the program has not named.
fn unnamed(snapshot: &Snapshot) -> Vec<(TensorId, (&str, Bytes))> {
    let infos = roots(snapshot).map(|id| (id, &snapshot.tensors[id as usize]));
    infos.filter(|(_, info)| is_unnamed(&info.name)).map(|(id, info)| (id, (&*info.name, info.size))).collect()
}
