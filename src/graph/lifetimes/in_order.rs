//! Graphs in which whatever a tensor refers to comes before it, as in nearly all: they tell at once who reads whom.

use crate::graph::{Flags, Graph, Operation, Tensor, TensorId};
use crate::placement::Step;

use super::last_reads::LastReads;
use super::state::{Marks, State};

/// What is known of such a graph before any tensor has memory.
pub struct InOrder {
    /// By tensor, with all mentions and views.
    pub states: Vec<State>,
    /// Of all that may get memory, and their views.
    pub last_reads: LastReads,
    /// The steps that compute inputs.
    pub inputs: Vec<Step>,
    /// The steps that put the bytes of two sources into one result.
    pub concats: Vec<Step>,
}

impl InOrder {
    /// `None` unless the first tensors are the leafs, which refer to nobody, the others the nodes in their order, which
    /// refer to such before them, or themselves, and compute something.
    pub fn of(graph: &Graph) -> Option<Self> {
        let (leafs, nodes) = graph.tensors().split_at_checked(graph.leafs().len())?;
        let first_node = id_of(leafs.len());
        let is_listed = graph.nodes().len() == nodes.len()
            && is_counting(graph.leafs(), 0)
            && is_counting(graph.nodes(), first_node);
        let (leaf_readers, node_readers) = graph.last_readers()?.split_at_checked(leafs.len())?;
        if !is_listed || node_readers.len() < nodes.len() {
            return None;
        }
        let states = Vec::with_capacity(graph.tensors().len());
        let last_reads = LastReads::new(graph.tensors().len(), graph.steps());
        let mut found = Self { states, last_reads, inputs: Vec::new(), concats: Vec::new() };
        found.add_leafs(leafs, leaf_readers, first_node)?;
        found.add_nodes(nodes, node_readers, first_node)?;
        for &reader in graph.self_readers() {
            found.states[reader as usize].marks |= Marks::NAMES_UNSEEN;
        }
        Some(found)
    }

    #[inline(never)]
    fn add_leafs(&mut self, leafs: &[Tensor], readers: &[TensorId], first_node: TensorId) -> Option<()> {
        let Self { states, last_reads, .. } = self;
        for (id, (leaf, &reader)) in (0..).zip(leafs.iter().zip(readers)) {
            let read_until = read_until(reader, first_node)?;
            let marks = if leaf.external { Marks::NONE } else { Marks::WAITS } | Marks::of_flags(leaf.flags);
            let state = State { read_until, computed: 0, views: 0, marks };
            last_reads.add(id, &state);
            states.push(state);
            if leaf.view.is_some() {
                return None;
            }
        }
        Some(())
    }

    #[inline(never)]
    fn add_nodes(&mut self, nodes: &[Tensor], readers: &[TensorId], first_node: TensorId) -> Option<()> {
        let Self { states, last_reads, inputs, concats } = self;
        for (step, (node, &reader)) in (0..).zip(nodes.iter().zip(readers)) {
            let read_until = read_until(reader, first_node)?;
            let marks = match node.view {
                None if node.external => Marks::NONE,
                None => Marks::WAITS,
                Some(view) => states.get_mut(view.root as usize)?.add_view(node.flags),
            };
            let state = State { read_until, computed: step, views: 0, marks: marks | Marks::of_flags(node.flags) };
            last_reads.add(first_node + step, &state);
            states.push(state);
            if node.flags.has(Flags::INPUT) {
                inputs.push(step);
            }
            match node.operation {
                Operation::Marker => return None,
                Operation::Concat => concats.push(step),
                _ => {}
            }
        }
        Some(())
    }
}

/// The step after the one that runs the node `reader`; 0 without a reader, and `None` when it is a leaf.
#[inline]
fn read_until(reader: TensorId, first_node: TensorId) -> Option<Step> {
    if reader == 0 { Some(0) } else { Some(reader.checked_sub(first_node)? + 1) }
}

/// Are these `first` and the following numbers?
fn is_counting(ids: &[TensorId], first: TensorId) -> bool {
    (first..).zip(ids).all(|(expected, &id)| id == expected)
}

fn id_of(index: usize) -> TensorId {
    TensorId::try_from(index).expect("fewer than 2^32 tensors")
}
