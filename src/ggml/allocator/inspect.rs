//! Reports of an allocator on request: its sizes, and snapshots and explanations of a graph. Nothing is changed.

use crate::ggml::extensions::pass::same_memory;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::read::{ReadGraph, Requested, read};
use crate::ggml::refusal::{NotMeasured, Refusal};
use crate::graph::snapshot::Snapshot;
use crate::graph::{PlanError, RuleSetting, Rules, TensorId};
use crate::placement::Bytes;
use crate::report::explain::{DEFAULT_TRIALS, Explanation, PlannedGraph, explain};

use super::Allocator;

impl Allocator {
    /// The number of buffer ids.
    pub fn buffer_count(&self) -> usize {
        self.planner.types.id_count()
    }

    /// Bytes held in the buffer behind `id`; 0 for an id that repeats the buffer type of an earlier one.
    pub fn buffer_size(&self, id: usize) -> Bytes {
        self.planner.types.first_use(id).map_or(0, |buffer| self.chunks.size(buffer))
    }

    /// Bytes that the latest plan requires for `id`, whether or not they could be allocated.
    pub fn required_size(&self, id: usize) -> Bytes {
        self.planner.types.first_use(id).map_or(0, |buffer| self.required[buffer].size)
    }

    /// The lower bound of the latest plan for `id`.
    pub fn lower_bound(&self, id: usize) -> Bytes {
        self.planner.types.first_use(id).map_or(0, |buffer| self.required[buffer].lower_bound)
    }

    /// Returns `graph` with its names, as this allocator would plan it: [`Snapshot::plan_as_recorded`] makes the plan.
    /// Tensors in the allocator's own chunks count as tensors without memory, so an allocated graph is recorded like
    /// one that is not. Where the ids are `None` they are those of the plan in use, if that is for as many leafs and
    /// nodes, and otherwise 0.
    pub fn snapshot(&self, graph: GraphRef<'_>, node_ids: Option<&[usize]>, leaf_ids: Option<&[usize]>) -> Snapshot {
        let counts = |requested: &Requested| (requested.leafs.len(), requested.nodes.len());
        let mut requested = self.planner.types.requested(graph, node_ids, leaf_ids);
        if let (None, None, Some(current)) = (node_ids, leaf_ids, self.plans.current())
            && counts(&current.requested) == counts(&requested)
        {
            requested.clone_from(&current.requested);
        }
        let mut reading = read(self.planner.runtime, &[], graph, &requested);
        for (id, tensor) in (0..).zip(&reading.tensors) {
            if self.chunks.contains(tensor.buffer()) && reading.graph.tensor(id).external {
                reading.graph.set_external(id, false);
            }
        }
        self.planner.retention.to_current().retain_in(&mut reading.graph, graph);
        self.planner.subject(&reading, &requested.of_all(&reading.graph)).snapshot()
    }

    /// Explains the plan that would be made for [`Allocator::snapshot`] of `graph`.
    ///
    /// # Errors
    /// [`NotMeasured`] if a reservation of the graph would be refused however much memory is free.
    pub fn explain(&self, graph: GraphRef<'_>) -> Result<Explanation, NotMeasured> {
        self.expect_acceptable(graph, None, None)?;
        let mut snapshot = self.snapshot(graph, None, None);
        // The caller knows which graph it is.
        snapshot.label.clear();
        let plan = snapshot.plan_as_recorded().map_err(|PlanError::TooLarge { buffer, bytes }| {
            NotMeasured::TooLarge { buffer: self.planner.types.types()[buffer as usize].name(), size: bytes }
        })?;
        let allowed: Vec<Rules> =
            self.planner.types.types().iter().map(|buffer_type| buffer_type.rules(&RuleSetting::default())).collect();
        let mut explanation = explain(PlannedGraph {
            snapshot: &snapshot,
            buffers: &snapshot.recorded_buffers(),
            allowed: &allowed,
            same_memory: &self.aliases(graph, &snapshot),
            plan: &plan,
            trials: DEFAULT_TRIALS,
        });
        for (index, buffer) in explanation.buffers.iter_mut().enumerate() {
            let id = self.planner.types.buffer_of_id().iter().position(|&other| other as usize == index);
            buffer.id = id.unwrap_or(index);
        }
        Ok(explanation)
    }

    /// Returns the bytes that ggml's own allocator needs for the graph of `reading`, as the program
    /// built it, by buffer.
    pub(super) fn ggml_alloc_sizes(
        &self,
        graph: GraphRef<'_>,
        reading: &ReadGraph<'_>,
        requested: &Requested,
    ) -> Option<Vec<Bytes>> {
        match &self.passes {
            Some(passes) => passes.ggml_alloc_sizes(&self.planner, graph, reading, requested),
            None => self.planner.subject(reading, &requested.of_all(&reading.graph)).ggml_alloc_sizes(),
        }
    }

    /// Returns `true` if tensors were added to the graph to keep a budget.
    pub fn has_tiled(&self, graph: GraphRef<'_>) -> bool {
        self.passes.as_ref().is_some_and(|passes| passes.has_tiled(graph))
    }

    /// Returns an error if a reservation of `graph` would be refused however much memory is free.
    ///
    /// # Errors
    /// [`Refusal::NotRealized`] or [`Refusal::Output`], as [`Allocator::reserve`] returns them.
    pub fn expect_acceptable(
        &self,
        graph: GraphRef<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<(), Refusal> {
        let requested = self.planner.types.requested(graph, node_ids, leaf_ids);
        self.planner.types.pending(graph, &requested)?;
        self.planner.check_outputs(graph, &requested)
    }

    /// Returns for each tensor the first one that aliases it. Tensors in the allocator's own chunks will be placed
    /// anew.
    fn aliases(&self, graph: GraphRef<'_>, snapshot: &Snapshot) -> Vec<TensorId> {
        let aliases = same_memory(self.planner.runtime, &read(self.planner.runtime, &[], graph, &Requested::default()));
        let own = |(id, alias): (TensorId, TensorId)| if snapshot.graph.tensor(id).external { alias } else { id };
        (0..).zip(aliases).map(own).collect()
    }
}
