//! What identifies the tensors of several graphs: their names, as GGUF files and llama.cpp give them, and which of them are one.

use std::collections::{HashMap, HashSet};

use crate::graph::TensorId;
use crate::graph::snapshot::Snapshot;
use crate::offload::item::ItemClass;
use crate::placement::Bytes;

use super::reads::Reads;

/// Returns the layer that a name has a number of: "blk.7.ffn_up.weight", "cache_k_l7".
pub fn layer(name: &str) -> Option<u32> {
    let number = |rest: &str| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    };
    let after = |marker: &str| name.split_once(marker).and_then(|(_, rest)| number(rest));
    after("blk.").or_else(|| after("cache_k_l")).or_else(|| after("cache_v_l")).or_else(|| after("_l"))
}

/// Returns `true` for the names that ggml gives: those of tensors that the program has not named, by their places in the first
/// graph that has them.
pub fn is_unnamed(name: &str) -> bool {
    let number = name.strip_prefix("leaf_").or_else(|| name.strip_prefix("node_"));
    name.is_empty() || number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the use of a tensor.
pub fn class(name: &str, is_cache: bool) -> ItemClass {
    let part = name.rsplit_once("blk.").map_or(name, |(_, rest)| rest.split_once('.').map_or(rest, |(_, part)| part));
    if is_cache {
        return if name.starts_with("cache_v") { ItemClass::ValueCache } else { ItemClass::KeyCache };
    }
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| part.starts_with(prefix));
    match () {
        () if starts(&["output"]) => ItemClass::Output,
        () if starts(&["attn"]) => ItemClass::Attention,
        () if starts(&["ffn_norm"]) => ItemClass::FfnNorm,
        () if starts(&["ffn"]) => ItemClass::Ffn,
        () if starts(&["fc1", "fc2"]) => ItemClass::Predictor,
        () => ItemClass::Other,
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_ggml_gives_are_known() {
        assert!(["", "leaf_0", "node_1234"].into_iter().all(is_unnamed));
        assert!(
            ["leaf", "leaf_x", "leaf_0 (view)", "node_1 (copy)", "blk.0.leaf_0"].into_iter().all(|it| !is_unnamed(it))
        );
    }

    #[test]
    fn layers_and_classes_follow_from_names() {
        let cases = [
            ("blk.7.ffn_up.weight", false, Some(7), ItemClass::Ffn),
            ("blk.12.ffn_norm.weight", false, Some(12), ItemClass::FfnNorm),
            ("blk.0.attn_q.weight", false, Some(0), ItemClass::Attention),
            ("blk.3.fc1.weight", false, Some(3), ItemClass::Predictor),
            ("output_norm.weight", false, None, ItemClass::Output),
            ("token_embd.weight", false, None, ItemClass::Other),
            ("cache_k_l31", true, Some(31), ItemClass::KeyCache),
            ("cache_v_l4", true, Some(4), ItemClass::ValueCache),
            ("cache_r_l2", true, Some(2), ItemClass::KeyCache),
            ("blk.x.ffn_up", false, None, ItemClass::Ffn),
            ("", false, None, ItemClass::Other),
        ];
        for (name, is_cache, expected_layer, expected_class) in cases {
            assert_eq!((layer(name), class(name, is_cache)), (expected_layer, expected_class), "{name}");
        }
    }
}
