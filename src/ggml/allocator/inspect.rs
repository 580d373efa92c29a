//! Reports of an allocator on request: its sizes, and snapshots and explanations of a graph; and what a graph needs, with and
//! without an allocator. No buffers are allocated, and no graph is changed.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::time::Instant;

use crate::ggml::bindings::ggml_cgraph;
use crate::ggml::context::PendingTensors;
use crate::ggml::extensions::pass::same_memory;
use crate::ggml::linking::original::Original;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::observe::capture::captures;
use crate::ggml::read::{ReadGraph, Requested, read};
use crate::ggml::refusal::{NotMeasured, Refusal};
use crate::graph::snapshot::Snapshot;
use crate::graph::{BufferPlan, Kept, PlanError, RuleSetting, Rules, TensorId};
use crate::placement::Bytes;
use crate::report::explain::{DEFAULT_TRIALS, Explanation, PlannedGraph, explain};

use super::Allocator;
use super::activity::Need;
use super::serve::note_required;

impl Allocator {
    /// Bytes held in the buffer behind `id`; 0 for an id that repeats the buffer type of an earlier one.
    pub fn buffer_size(&self, id: usize) -> Bytes {
        self.planner.types.first_use(id).map_or(0, |buffer| self.chunks.size(buffer))
    }

    /// What the latest plan needs for `id`, whether or not it could be allocated; nothing for an id that repeats the buffer
    /// type of an earlier one.
    pub fn need(&self, id: usize) -> Need {
        self.planner.types.first_use(id).map_or(Need::default(), |buffer| self.required[buffer])
    }

    /// Plans `graph` as it would be reserved and returns the bytes by id; neither the graph nor the chunks nor the plan
    /// in use are changed.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] when sizes overflow.
    ///
    /// # Safety
    /// `graph` is live with its tensors, and no other thread uses them.
    pub unsafe fn measure(
        &mut self,
        graph: NonNull<ggml_cgraph>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<Vec<Bytes>, Refusal> {
        let Self { passes, planner, .. } = self;
        // SAFETY: live, and used by no other thread: see "# Safety".
        let measured = passes.as_mut().map(|passes| unsafe { passes.measure(planner, graph, node_ids, leaf_ids) });
        // SAFETY: live, and used by no other thread: see "# Safety".
        let given = unsafe { GraphRef::new(graph) };
        match &measured {
            Some((_, Some(tiled))) => Ok(self.note_measured(&tiled.buffers)),
            Some((Some(new), None)) => {
                self.measure_in_order(GraphRef { nodes: &new.nodes, ..given }, new.ids.as_deref(), leaf_ids)
            }
            _ => self.measure_in_order(given, node_ids, leaf_ids),
        }
    }

    /// Returns by id what `graph` needs, as [`Allocator::measure`].
    ///
    /// # Errors
    /// [`NotMeasured`] if a reservation of the graph would be refused however much memory is free.
    ///
    /// # Safety
    /// `graph` is live with its tensors, and no other thread uses them.
    pub unsafe fn measure_checked(
        &mut self,
        graph: NonNull<ggml_cgraph>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<Vec<Need>, NotMeasured> {
        // SAFETY: live, and used by no other thread: see "# Safety".
        self.expect_acceptable(unsafe { GraphRef::new(graph) }, node_ids, leaf_ids)?;
        // SAFETY: as above.
        unsafe { self.measure(graph, node_ids, leaf_ids) }?;
        Ok((0..self.buffer_count()).map(|id| self.need(id)).collect())
    }

    fn measure_in_order(
        &mut self,
        graph: GraphRef<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<Vec<Bytes>, Refusal> {
        let requested = self.planner.types.requested(graph, node_ids, leaf_ids);
        let start = Instant::now();
        let mut reading = self.planner.read(graph, &requested, captures().is_enabled());
        self.planner.retention.current().retain_in(&mut reading.graph, graph);
        let plan = self.plan(&reading, &requested, start, Kept::AsGgml)?;
        reading.leave_to(&mut self.planner.workspace);
        let measured = self.note_measured(&plan.buffers);
        self.planner.workspace.reuse_plan(plan);
        Ok(measured)
    }

    /// Notes the requirements of a plan that was made only to measure them. Returns the bytes by id.
    fn note_measured(&mut self, plans: &[BufferPlan]) -> Vec<Bytes> {
        note_required(&mut self.required, plans);
        self.planner.types.buffer_of_id.iter().map(|&buffer| self.required[buffer as usize].size).collect()
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
    pub fn explain(
        &self,
        graph: GraphRef<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<Explanation, NotMeasured> {
        self.expect_acceptable(graph, node_ids, leaf_ids)?;
        let mut snapshot = self.snapshot(graph, node_ids, leaf_ids);
        // The caller knows which graph it is.
        snapshot.label.clear();
        let plan = snapshot.plan_as_recorded().map_err(|PlanError::TooLarge { buffer, bytes }| {
            NotMeasured::TooLarge { buffer: self.planner.types.list[buffer as usize].name(), size: bytes }
        })?;
        let allowed: Vec<Rules> =
            self.planner.types.list.iter().map(|buffer_type| buffer_type.rules(&RuleSetting::default())).collect();
        let mut explanation = explain(PlannedGraph {
            snapshot: &snapshot,
            buffers: &snapshot.recorded_buffers(),
            allowed: &allowed,
            same_memory: &self.aliases(graph, &snapshot),
            plan: &plan,
            trials: DEFAULT_TRIALS,
        });
        for (index, buffer) in explanation.buffers.iter_mut().enumerate() {
            let id = self.planner.types.buffer_of_id.iter().position(|&other| other as usize == index);
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

/// Plans `graph` and returns its requirements by buffer id; buffer id `i` refers to `types[i]`, and `None` for the ids
/// means 0. Allocates no buffers and does not change the graph. With `original`, ggml's own allocator measures.
///
/// # Errors
/// [`NotMeasured`].
///
/// # Safety
/// `graph` and its tensors are live, and no other thread uses them.
///
/// # Panics
/// If there is neither `original` nor a type.
pub unsafe fn measure(
    original: Option<&Original>,
    types: &[BufferType],
    graph: NonNull<ggml_cgraph>,
    node_ids: Option<&[usize]>,
    leaf_ids: Option<&[usize]>,
) -> Result<Vec<Need>, NotMeasured> {
    if let Some(original) = original {
        // SAFETY: a live graph that no other thread uses, as the caller guarantees.
        return unsafe { measure_original(original, types, graph, node_ids, leaf_ids) };
    }
    let mut allocator = Allocator::for_measuring(types[0].runtime(), types);
    if node_ids.is_none() {
        allocator.note_direct_use();
    }
    // SAFETY: a live graph that no other thread uses, as the caller guarantees.
    unsafe { allocator.measure_checked(graph, node_ids, leaf_ids) }
}

/// # Safety
/// `graph` and its tensors are live, and no other thread uses them.
unsafe fn measure_original(
    original: &Original,
    types: &[BufferType],
    graph: NonNull<ggml_cgraph>,
    node_ids: Option<&[usize]>,
    leaf_ids: Option<&[usize]>,
) -> Result<Vec<Need>, NotMeasured> {
    let reserve_n_size = original.gallocr_reserve_n_size.ok_or(NotMeasured::NoSizeFunction)?;
    // SAFETY: a live graph that no other thread uses, as the caller guarantees.
    if PendingTensors::is_possible() && !PendingTensors::in_graph(unsafe { GraphRef::new(graph) }).is_empty() {
        return Err(NotMeasured::NotRealized);
    }
    let mut pointers: Vec<_> = types.iter().map(|buffer_type| buffer_type.as_ptr()).collect();
    let count = c_int::try_from(types.len()).unwrap_or(c_int::MAX);
    let (node_ids, leaf_ids) = (c_ids(node_ids), c_ids(leaf_ids));
    let pointer = |ids: &Option<Vec<c_int>>| ids.as_ref().map_or(std::ptr::null(), |ids| ids.as_ptr());
    let mut sizes = vec![0; types.len()];
    // SAFETY: that many live buffer types.
    let galloc = unsafe { (original.gallocr_new_n)(pointers.as_mut_ptr(), count) };
    // SAFETY: a live allocator, graph and lists of ids, and room for one size a buffer type.
    unsafe { reserve_n_size(galloc, graph.as_ptr(), pointer(&node_ids), pointer(&leaf_ids), sizes.as_mut_ptr()) };
    // SAFETY: created above, and not used afterwards.
    unsafe { (original.gallocr_free)(galloc) };
    // ggml counts a repeated type each time, but allocates one buffer.
    let is_repeated = |id: usize| types[..id].contains(&types[id]);
    let size = |id: usize| if is_repeated(id) { 0 } else { sizes[id] as Bytes };
    Ok((0..types.len()).map(|id| Need { size: size(id), lower_bound: 0 }).collect())
}

fn c_ids(ids: Option<&[usize]>) -> Option<Vec<c_int>> {
    let id = |&id: &usize| c_int::try_from(id).unwrap_or(c_int::MAX);
    ids.map(|ids| ids.iter().map(id).collect())
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use super::*;

    /// A ggml older than `ggml_gallocr_reserve_n_size`. None of its functions are called.
    fn old_ggml() -> Original {
        let found = Original::find(|name| {
            if name == c"ggml_gallocr_reserve_n_size" { std::ptr::null() } else { old_ggml as *const c_void }
        });
        found.expect("that function may be missing")
    }

    #[test]
    fn ggml_without_a_measuring_function_is_an_error() {
        // SAFETY: the graph is not read.
        let measured = unsafe { measure(Some(&old_ggml()), &[], NonNull::dangling(), None, None) };
        assert_eq!(measured, Err(NotMeasured::NoSizeFunction));
        assert!(NotMeasured::NoSizeFunction.to_string().contains("ggml_gallocr_reserve_n_size"));
    }
}
