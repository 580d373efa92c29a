//! What all parts of an explanation look at.

use crate::graph::order::Hazards;
use crate::graph::snapshot::Snapshot;
use crate::graph::{Home, TensorId};
use crate::placement::{Bytes, Step, padded};

use super::draft::Draft;
use super::uses::Uses;
use super::{Named, Node, Subject};

/// A graph that is being explained.
pub struct Case<'a> {
    pub subject: Subject<'a>,
    pub uses: Uses,
    /// Which nodes must stay before which.
    pub hazards: Hazards,
    /// The graph in a form that can be changed.
    pub draft: Draft,
    /// By pool: what ggml's own allocator takes.
    pub ggml_alloc: Vec<Option<Bytes>>,
}

impl<'a> Case<'a> {
    pub fn new(subject: Subject<'a>) -> Self {
        let uses = Uses::of(subject.snapshot, subject.plan);
        let hazards = Hazards::new(&subject.snapshot.graph, &uses.effects, subject.same_memory);
        Self { subject, uses, hazards, draft: Draft::of(subject.snapshot), ggml_alloc: ggml_alloc(subject.snapshot) }
    }

    /// Where a tensor lives, if that is in this pool.
    pub fn home(&self, id: TensorId, pool: usize) -> Option<Home> {
        self.subject.plan.homes[id as usize].filter(|home| home.pool as usize == pool)
    }

    /// All tensors that live in a pool.
    pub fn tensors_in(&self, pool: usize) -> impl Iterator<Item = (TensorId, Home)> {
        let homes = (0..).zip(&self.subject.plan.homes);
        homes.filter_map(move |(id, home)| Some((id, home.filter(|home| home.pool as usize == pool)?)))
    }

    /// Bytes of a tensor with this home.
    pub fn bytes(&self, home: Home) -> Bytes {
        padded(home.alloc_size, self.subject.pools[home.pool as usize].alignment)
    }

    pub fn named(&self, id: TensorId) -> Named {
        let tensor = &self.subject.snapshot.tensors[id as usize];
        Named { name: tensor.name.clone(), op: tensor.desc.clone() }
    }

    /// A step of the graph as it is.
    pub fn node(&self, step: Step) -> Node {
        let node = self.subject.snapshot.graph.nodes().get(step as usize);
        Node { step, tensor: node.map(|&node| self.named(node)) }
    }
}

/// By pool: what ggml's own allocator takes, as the snapshot says, or else as its rules do.
fn ggml_alloc(snapshot: &Snapshot) -> Vec<Option<Bytes>> {
    let known = || snapshot.buffers.iter().map(|buffer| buffer.ggml_alloc_size);
    if known().all(|size| size.is_some()) {
        return known().collect();
    }
    let mut computed = snapshot.clone();
    computed.add_ggml_alloc_sizes();
    known().zip(computed.buffers).map(|(known, computed)| known.or(computed.ggml_alloc_size)).collect()
}
