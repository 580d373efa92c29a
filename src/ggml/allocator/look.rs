//! What an allocator says of a graph that it does not serve: neither the graph nor the plan in use are touched.

use std::time::Instant;

use crate::ggml::read::{Reading, Requested, read, read_to_plan};
use crate::ggml::snapshot::Subject;
use crate::ggml::tensor::{GraphRef, TensorRef};
use crate::graph::snapshot::Snapshot;
use crate::placement::Bytes;

use super::{Allocator, Refusal};

impl Allocator {
    /// Plans `graph` and tells the bytes by id; neither the graph nor the buffers nor the plan in use are touched.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] when sizes overflow.
    pub fn measure(
        &mut self,
        graph: GraphRef<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<Vec<Bytes>, Refusal> {
        let requested = self.requested(graph, node_ids, leaf_ids);
        let start = Instant::now();
        let read = if self.runtime.captures.are_wanted() { read } else { read_to_plan };
        let reading = read(self.runtime, &self.types, graph, &requested);
        self.plan(&reading, &requested, start)?;
        Ok(self.buffer_of.iter().map(|&buffer| self.wanted[buffer as usize].size).collect())
    }

    /// `graph` with its names, as this allocator would plan it: [`Snapshot::plan_as_recorded`] gives the plan. Tensors in
    /// the allocator's own buffers count as such without memory, so a graph that is allocated already is told like one that
    /// is not. Where the ids are `None` they are those of the latest plan, if that is for as many leafs and nodes, and
    /// otherwise 0. Neither the graph nor the allocator is touched.
    pub fn snapshot(&self, graph: GraphRef<'_>, node_ids: Option<&[usize]>, leaf_ids: Option<&[usize]>) -> Snapshot {
        let counts = |requested: &Requested| (requested.leafs.len(), requested.nodes.len());
        let mut requested = self.requested(graph, node_ids, leaf_ids);
        if let (None, None, Some(latest)) = (node_ids, leaf_ids, self.plans.first())
            && counts(&latest.requested) == counts(&requested)
        {
            requested.clone_from(&latest.requested);
        }
        let mut reading = read(self.runtime, &[], graph, &requested);
        for (id, tensor) in (0..).zip(&reading.tensors) {
            if self.holds(*tensor) && reading.graph.tensor(id).external {
                reading.graph.set_external(id, false);
            }
        }
        self.subject(&reading, &requested.of_all(&reading.graph)).snapshot()
    }

    pub(super) fn subject<'a, 'g>(&'a self, reading: &'a Reading<'g>, requested: &'a Requested) -> Subject<'a, 'g> {
        let Self { runtime, ref types, ref buffers, .. } = *self;
        Subject { runtime, types, buffers, requested, reading }
    }

    /// Does a tensor lie in one of the allocator's own buffers?
    fn holds(&self, tensor: TensorRef<'_>) -> bool {
        self.chunks.iter().flatten().flatten().any(|buffer| buffer.as_ptr() == tensor.buffer())
    }

    /// Would a reservation of `graph` be refused whatever memory there is?
    ///
    /// # Errors
    /// [`Refusal::NotRealized`] or [`Refusal::Output`], as [`Allocator::reserve`] would say it.
    pub fn expect_acceptable(
        &self,
        graph: GraphRef<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<(), Refusal> {
        let requested = self.requested(graph, node_ids, leaf_ids);
        self.waiting(graph, &requested)?;
        self.check_outputs(graph, &requested)
    }
}
