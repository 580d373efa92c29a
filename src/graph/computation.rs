//! A computation graph: tensors, their sources, and the order of execution.

use crate::placement::Step;

use super::def_use::DefUse;
use super::layouts::{Layout, LayoutId, LayoutRef, Layouts, UNKNOWN};
use super::lists::Lists;
use super::retention::Retention;
use super::rules::Rules;
use super::tensor::{Flags, Tensor, TensorId, View};

/// Converts an index to an id.
pub fn id_of(index: usize) -> TensorId {
    TensorId::try_from(index).expect("fewer than 2^32 tensors")
}

/// A computation graph. Tensors are added in the order of their ids, and so are their sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    tensors: Vec<Tensor>,
    layouts: Layouts,
    /// By tensor.
    layout_ids: Vec<LayoutId>,
    def_use: DefUse,
    leafs: Vec<TensorId>,
    nodes: Vec<TensorId>,
    retention: Retention,
}

impl Graph {
    /// Creates an empty graph with capacity for `tensors`.
    pub fn with_capacity(tensors: usize) -> Self {
        Self {
            tensors: Vec::with_capacity(tensors),
            layouts: Layouts::default(),
            layout_ids: Vec::with_capacity(tensors),
            def_use: DefUse::with_capacity(tensors),
            leafs: Vec::new(),
            nodes: Vec::new(),
            retention: Retention::default(),
        }
    }

    /// Removes everything, and reserves capacity for `tensors`. Later additions reuse the memory.
    pub fn reset(&mut self, tensors: usize) {
        let Self { tensors: list, layouts, layout_ids, def_use, leafs, nodes, retention } = self;
        list.clear();
        list.reserve(tensors);
        layouts.clear();
        layout_ids.clear();
        layout_ids.reserve(tensors);
        def_use.reset(tensors);
        leafs.clear();
        nodes.clear();
        *retention = Retention::default();
    }

    /// Adds a tensor with its layout.
    #[inline]
    pub fn add(&mut self, tensor: Tensor, layout: LayoutRef<'_>) -> TensorId {
        let id = id_of(self.tensors.len());
        self.tensors.push(tensor);
        self.layout_ids.push(self.layouts.id(layout));
        id
    }

    /// Adds tensors; their layouts follow by [`Graph::extend_layouts`] or [`Graph::defer_layouts`].
    #[inline]
    pub fn extend(&mut self, tensors: impl Iterator<Item = Tensor>) {
        self.tensors.extend(tensors);
    }

    /// Removes all but the first `tensors`, as long as nothing else was recorded of the others.
    pub fn truncate(&mut self, tensors: usize) {
        self.tensors.truncate(tensors);
    }

    /// Records the layouts of the next tensors that were added without.
    #[inline]
    pub fn extend_layouts<'l, T>(&mut self, tensors: &[T], layout: impl Fn(&T) -> LayoutRef<'l>) {
        self.layouts.add_ids(tensors, layout, &mut self.layout_ids);
    }

    /// Leaves the layouts of the next tensors that were added without unknown, until [`Graph::set_layout`].
    #[inline]
    pub fn defer_layouts(&mut self, tensors: usize) {
        self.layout_ids.resize(self.layout_ids.len() + tensors, UNKNOWN);
    }

    /// Returns `true` if the layout of a tensor is known.
    pub fn has_layout(&self, tensor: TensorId) -> bool {
        self.layout_ids[tensor as usize] != UNKNOWN
    }

    /// Records the layout of a tensor.
    pub fn set_layout(&mut self, tensor: TensorId, layout: LayoutRef<'_>) {
        self.layout_ids[tensor as usize] = self.layouts.id(layout);
    }

    /// Records the sources of the next tensor, in the order of its slots; a source in two slots counts twice. The first
    /// call is for the first tensor.
    pub fn push_sources(&mut self, sources: impl Iterator<Item = TensorId>) {
        self.def_use.push_tensor(sources);
    }

    /// Records sources of the next tensors together: those of the first, then those of the next, each with its user.
    /// Stops at the first source that `id` does not know or that does not come before its user, and returns how many
    /// were recorded. That source is for [`Graph::push_source`], the rest for this function again.
    #[inline]
    pub fn extend_sources<S: Copy>(
        &mut self,
        sources: &[S],
        users: &[TensorId],
        id: impl Fn(S) -> Option<TensorId>,
    ) -> usize {
        self.def_use.extend(sources, users, id)
    }

    /// Records one source of the next tensors, of any id.
    pub fn push_source(&mut self, source: TensorId, user: TensorId) {
        self.def_use.push(source, user);
    }

    /// Assigns the sources recorded last to the next tensors. `ends` holds, by tensor, how many of them belong to it
    /// and the tensors before it.
    #[inline]
    pub fn end_sources(&mut self, ends: &[u32]) {
        self.def_use.end_tensors(ends);
    }

    /// Records that the next tensors have no sources.
    #[inline]
    pub fn push_no_sources(&mut self, tensors: usize) {
        self.def_use.skip_tensors(tensors);
    }

    /// Makes `tensor` a view.
    pub fn set_view(&mut self, tensor: TensorId, view: View) {
        self.tensors[tensor as usize].view = Some(view);
    }

    /// Makes a tensor the owner of its memory.
    pub fn clear_view(&mut self, tensor: TensorId) {
        self.tensors[tensor as usize].view = None;
    }

    /// Sets whether `tensor` has memory that is never planned.
    pub fn set_external(&mut self, tensor: TensorId, external: bool) {
        self.tensors[tensor as usize].external = external;
    }

    /// Appends to the leafs: constants and inputs, with memory from the start.
    pub fn list_leafs(&mut self, tensors: impl IntoIterator<Item = TensorId>) {
        self.leafs.extend(tensors);
    }

    /// Appends to the nodes, which are executed in this order.
    pub fn list_nodes(&mut self, tensors: impl IntoIterator<Item = TensorId>) {
        self.nodes.extend(tensors);
    }

    /// Sets which tensors keep their values beyond their last use.
    pub fn set_retention(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// Returns a copy that retains no tensors; `None` if this graph retains none.
    pub fn without_retention(&self) -> Option<Self> {
        (!self.retention.is_empty()).then(|| Self { retention: Retention::default(), ..self.clone() })
    }

    /// Returns the graph with its nodes in another order, given as positions in this one.
    #[must_use]
    pub fn in_order(&self, order: &[Step]) -> Self {
        let nodes = order.iter().map(|&step| self.nodes[step as usize]).collect();
        Self { nodes, ..self.clone() }
    }

    /// Returns all tensors by id: leafs, nodes, and those that are only referred to.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Returns one tensor.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id as usize]
    }

    /// Returns the element type, extents and strides of a tensor.
    pub fn layout(&self, id: TensorId) -> &Layout {
        self.layouts.get(self.layout_ids[id as usize])
    }

    /// Returns the layout with this index.
    pub fn layout_by_id(&self, id: LayoutId) -> &Layout {
        self.layouts.get(id)
    }

    /// Returns the index of a tensor's layout. Indices count layouts in the order in which they first occur.
    pub fn layout_id(&self, id: TensorId) -> LayoutId {
        self.layout_ids[id as usize]
    }

    /// Returns the index of each tensor's layout.
    pub fn layout_ids(&self) -> &[LayoutId] {
        &self.layout_ids
    }

    /// Returns the number of distinct layouts.
    pub fn distinct_layouts(&self) -> usize {
        self.layouts.len()
    }

    /// Returns `true` if two tensors have the same element type, extents and strides.
    pub fn same_layout(&self, one: TensorId, other: TensorId) -> bool {
        self.layout_ids[one as usize] == self.layout_ids[other as usize]
    }

    /// Returns `true` if a node may take the memory of its source in this slot under the rules of a buffer, by the operation
    /// and the layouts, and unless the source is in the middle of other memory.
    ///
    /// Whether it does depends on uses, since nothing else may use that memory, neither later nor in another slot, and on
    /// sizes. The simulator decides separately, by addresses.
    #[inline(always)]
    pub fn may_take_memory(&self, node: TensorId, (slot, source): (usize, TensorId), rules: &Rules) -> bool {
        self.same_layout(source, node)
            && rules.allow(self.tensor(node).in_place, slot)
            && self.tensor(source).view.is_none_or(|view| rules.views && view.offset == 0)
    }

    /// Returns the leafs in the order of the graph.
    pub fn leafs(&self) -> &[TensorId] {
        &self.leafs
    }

    /// Returns the nodes in the order of execution.
    pub fn nodes(&self) -> &[TensorId] {
        &self.nodes
    }

    /// Returns the tensors that keep their values beyond their last use.
    pub fn retention(&self) -> &Retention {
        &self.retention
    }

    /// Returns the retained tensors by id, each with the last step in which it is retained; `None` if it is to the end.
    pub fn retained(&self) -> Vec<(TensorId, Option<Step>)> {
        let list = self.retention.list();
        let mut last_steps = Vec::new();
        if list.iter().any(|retained| retained.until.is_some()) {
            last_steps.resize(self.tensors.len(), None);
            (0..).zip(&self.nodes).for_each(|(step, &node)| last_steps[node as usize] = Some(step));
        }
        let until = |node: TensorId| last_steps.get(node as usize).copied().flatten();
        list.iter().map(|retained| (retained.tensor, retained.until.and_then(until))).collect()
    }

    /// Returns `true` if `node` ends the retention of `root` or of a view of it: the node must not write over it.
    #[inline]
    pub fn is_retained_until(&self, root: TensorId, node: TensorId) -> bool {
        !self.retention.is_empty() && self.retention.until(node).any(|tensor| self.root(tensor) == root)
    }

    /// Returns the sources of a tensor, in the order of its slots.
    pub fn sources(&self, id: TensorId) -> &[TensorId] {
        self.def_use.sources(id)
    }

    /// Returns `true` if none of the first `tensors` has a source.
    pub fn have_no_sources(&self, tensors: usize) -> bool {
        self.def_use.have_no_sources(tensors)
    }

    /// Returns, by tensor, the tensor with the largest id that has it as a source; 0 or missing at the end where there
    /// is none. `None` if any tensor has a source with a larger id.
    pub fn last_users(&self) -> Option<&[TensorId]> {
        self.def_use.last_users()
    }

    /// Returns the tensors that are sources of themselves; meaningful where [`Graph::last_users`] is `Some`.
    pub fn self_users(&self) -> &[TensorId] {
        self.def_use.self_users()
    }

    /// Returns, by tensor, whether a node has it as a source.
    pub fn used_by_nodes(&self) -> Vec<bool> {
        let mut used = vec![false; self.tensors.len()];
        for &source in self.nodes.iter().flat_map(|&node| self.sources(node)) {
            used[source as usize] = true;
        }
        used
    }

    /// Returns, by tensor, how often it is a source of a node.
    pub fn use_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.tensors.len()];
        for &source in self.nodes.iter().flat_map(|&node| self.sources(node)) {
            counts[source as usize] += 1;
        }
        counts
    }

    /// Returns, by tensor, the nodes that have it as a source, each once; a node that is its own source is not its user.
    pub fn users(&self) -> Lists<TensorId> {
        let uses = self.nodes.iter().flat_map(|&node| {
            let sources = self.sources(node);
            let once = move |&(slot, source): &(usize, &TensorId)| *source != node && !sources[..slot].contains(source);
            sources.iter().enumerate().filter(once).map(move |(_, &source)| (source, node))
        });
        Lists::collect(self.tensors.len(), uses)
    }

    /// Returns, by tensor, the first step that computes it.
    pub fn first_defs(&self) -> Vec<Option<Step>> {
        let mut defs = vec![None; self.tensors.len()];
        for (step, &node) in (0..).zip(&self.nodes) {
            defs[node as usize].get_or_insert(step);
        }
        defs
    }

    /// Returns the tensor that owns the memory of `id`: the root of a view, otherwise `id`.
    pub fn root(&self, id: TensorId) -> TensorId {
        self.tensor(id).view.map_or(id, |view| view.root)
    }

    /// Returns `true` if any node has [`Flags::COMPUTE`]. Backends then skip the nodes that do not.
    pub fn has_flag_compute(&self) -> bool {
        // The last node is nearly always one that is computed.
        self.nodes.iter().rev().any(|&node| self.tensor(node).flags.has(Flags::COMPUTE))
    }

    /// Returns the number of steps; a graph without nodes takes one.
    pub fn steps(&self) -> u32 {
        u32::try_from(self.nodes.len().max(1)).expect("fewer than 2^32 nodes")
    }
}
