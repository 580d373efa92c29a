//! The state of graphs before they were changed, to restore it: where another graph has tensors of one that was changed, and
//! where the program asks for tensors that only tiles are computed of.

use std::collections::{HashMap, HashSet};
use std::ptr::NonNull;

use crate::ggml::bindings::{ggml_cgraph, ggml_tensor};
use crate::ggml::live::lock::Lock;
use crate::ggml::live::tensor::{GraphRef, MAX_SOURCES, TensorRef};
use crate::ggml::live::tensor_mut::{TensorMut, mark_changed, mark_stays_whole, unmark};
use crate::placement::Bytes;

use super::additions::AddedRanges;
use super::assignment::Assignment;

/// Maximum number of remembered graphs; beyond it, the oldest are forgotten.
const MOST: usize = 1024;

/// A tensor that is followed only while the graph that it belongs to is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Address(NonNull<ggml_tensor>);

// SAFETY: an address; code that follows it states why the tensor is live and used by no other thread.
unsafe impl Send for Address {}

impl Address {
    fn of(tensor: TensorRef<'_>) -> Self {
        Self(NonNull::new(tensor.as_ptr()).expect("a tensor has an address"))
    }

    /// # Safety
    /// The tensor lives for `'g`, and no other thread uses it.
    unsafe fn tensor<'g>(self) -> TensorRef<'g> {
        // SAFETY: the tensor lives for `'g`, and no other thread uses it, as the caller guarantees.
        unsafe { TensorRef::from_non_null(self.0) }
    }
}

/// The fields of a tensor that a budget changes.
#[derive(Debug, PartialEq, Eq)]
struct Fields {
    op: u32,
    sources: [Option<Address>; MAX_SOURCES],
    view: Option<(Address, usize)>,
}

impl Fields {
    fn of(tensor: TensorRef<'_>) -> Self {
        Self {
            op: tensor.op(),
            sources: tensor.source_slots().map(|source| source.map(Address::of)),
            view: tensor.view_source().map(|root| (Address::of(root), tensor.view_offset())),
        }
    }

    /// Gives a tensor these fields, without memory.
    ///
    /// # Safety
    /// The tensors that the fields name are live, and no other thread uses them.
    unsafe fn restore(&self, tensor: TensorRef<'_>) {
        unmark(tensor);
        // SAFETY: no reference into the tensor is held.
        let mut writer = unsafe { TensorMut::new(tensor) };
        writer.set_operation(self.op);
        writer.clear_view();
        if let Some((root, offset)) = self.view {
            // SAFETY: the caller guarantees that the tensors which the fields name are live.
            let root = unsafe { root.tensor() };
            writer.set_view(root, offset);
            // Memory of a context has no buffer, and nothing else places its views.
            if root.buffer().is_null() && !root.data().is_null() {
                writer.set_memory(std::ptr::null_mut(), root.data().wrapping_byte_add(offset));
            }
        }
        for (slot, source) in self.sources.iter().enumerate() {
            match source {
                // SAFETY: the source is live, and no other thread uses it, as the caller guarantees.
                Some(source) => writer.set_source(slot, unsafe { source.tensor() }),
                None => writer.clear_source(slot),
            }
        }
    }
}

/// A graph that is to be changed: all of it that may change.
#[derive(Debug)]
pub struct Before {
    nodes: Vec<Address>,
    tensors: Vec<(Address, Fields)>,
}

/// A tensor that was changed.
#[derive(Debug)]
struct Changed {
    tensor: Address,
    before: Fields,
    after: Fields,
}

impl Before {
    /// Notes the current state of the graph; `tensors` are all that it refers to.
    pub fn of(live: GraphRef<'_>, tensors: &[TensorRef<'_>]) -> Self {
        Self {
            nodes: live.nodes.iter().copied().map(Address::of).collect(),
            tensors: tensors.iter().map(|&tensor| (Address::of(tensor), Fields::of(tensor))).collect(),
        }
    }

    /// Remembers it for the graph that it has become; `by_ggml` are the bytes that ggml-alloc needs for it, by buffer, where
    /// they are reported, and `assignment` the backends of its nodes.
    ///
    /// # Safety
    /// `graph` is live with its tensors and those that it had, and no other thread uses them.
    pub unsafe fn remember(
        self,
        graph: NonNull<ggml_cgraph>,
        by_ggml: Option<Vec<Bytes>>,
        assignment: Option<&Assignment>,
    ) {
        // SAFETY: live, as the caller guarantees.
        let nodes = unsafe { GraphRef::new(graph) }.nodes;
        let changed_to = sorted(nodes);
        let backends = assignment.map(|assignment| {
            let assigned = |&node: &TensorRef<'_>| Some((Address::of(node), assignment.of(node)?));
            nodes.iter().filter_map(assigned).collect()
        });
        let changed = self.tensors.into_iter().map(|(tensor, before)| {
            // SAFETY: live, as the caller guarantees.
            let after = Fields::of(unsafe { tensor.tensor() });
            Changed { tensor, before, after }
        });
        let changed: Vec<Changed> = changed.filter(|changed| changed.before != changed.after).collect();
        let addresses: HashSet<Address> = changed.iter().map(|changed| changed.tensor).collect();
        for &tensor in &addresses {
            // SAFETY: live, as the caller guarantees.
            mark_changed(unsafe { tensor.tensor() });
        }
        let is_listed = |node: &Address| changed_to.binary_search(node).is_ok();
        let replaced = self.nodes.iter().copied().filter(|node| !is_listed(node)).collect();
        let mut known = KNOWN.lock();
        // Where a tensor of this graph is, one of an earlier graph is gone.
        let is_gone = |it: &Known| it.changed.iter().any(|changed| addresses.contains(&changed.tensor));
        known.retain(|it| it.graph != graph.as_ptr().addr() && !is_gone(it));
        if known.len() == MOST {
            known.remove(0);
        }
        known.push(Known {
            graph: graph.as_ptr().addr(),
            nodes: changed_to,
            replaced,
            given: self.nodes,
            changed,
            by_ggml,
            backends,
        });
    }
}

/// A graph that was changed.
#[derive(Debug)]
struct Known {
    graph: usize,
    /// The nodes that it has since, by address: backends may put them into another order.
    nodes: Vec<Address>,
    /// The nodes that only tiles are computed of.
    replaced: Vec<Address>,
    /// The nodes that it had.
    given: Vec<Address>,
    changed: Vec<Changed>,
    /// The bytes that ggml-alloc needed for it, by buffer, where they are reported.
    by_ggml: Option<Vec<Bytes>>,
    /// The backends of its nodes, if its scheduler has several.
    backends: Option<HashMap<Address, usize>>,
}

/// Those of the process, the latest last.
static KNOWN: Lock<Vec<Known>> = Lock::new(Vec::new());

/// Returns the addresses of nodes in their order.
fn sorted(nodes: &[TensorRef<'_>]) -> Vec<Address> {
    let mut addresses: Vec<Address> = nodes.iter().copied().map(Address::of).collect();
    addresses.sort_unstable();
    addresses
}

impl Known {
    /// Returns `true` if it is this graph, as it was changed.
    fn is(&self, graph: NonNull<ggml_cgraph>, live: GraphRef<'_>) -> bool {
        self.graph == graph.as_ptr().addr() && self.has_become(live)
    }

    /// Returns `true` if it has these nodes, as it was changed.
    fn has_become(&self, live: GraphRef<'_>) -> bool {
        self.nodes.len() == live.nodes.len() && self.nodes == sorted(live.nodes)
    }

    /// Restores the tensors for which `is_among` returns `true`. If they are marked to stay whole, their graphs are not changed any
    /// more.
    ///
    /// # Safety
    /// The tensors are live with all that they were made of, and no other thread uses them.
    unsafe fn restore(&self, stay_whole: bool, is_among: impl Fn(Address) -> bool) {
        for Changed { tensor, before, after } in self.changed.iter().filter(|changed| is_among(changed.tensor)) {
            // SAFETY: live, as the caller guarantees.
            let tensor = unsafe { tensor.tensor() };
            // A tensor that was built later in the same memory has no mark.
            if tensor.is_changed() && Fields::of(tensor) == *after {
                // SAFETY: live, as the caller guarantees.
                unsafe { before.restore(tensor) };
                if stay_whole {
                    mark_stays_whole(tensor);
                }
            }
        }
    }
}

impl Known {
    /// Restores its tensors and its list of nodes.
    ///
    /// # Safety
    /// `graph` is the live graph that was changed, with its tensors and `leafs` leafs, which no other thread uses, and no [`GraphRef`] of
    /// it is used afterwards.
    unsafe fn restore_graph(&self, graph: NonNull<ggml_cgraph>, leafs: usize, stay_whole: bool) {
        // SAFETY: the graph was built of these tensors, and is live.
        unsafe { self.restore(stay_whole, |_| true) };
        // SAFETY: as above.
        let nodes: Vec<TensorRef<'_>> = self.given.iter().map(|node| unsafe { node.tensor() }).collect();
        // SAFETY: the graph had room for these nodes.
        unsafe { GraphRef::replace_lists(graph, &nodes, leafs) };
    }
}

/// Returns the bytes that ggml-alloc needs for the graph that was changed and has become `live`, by buffer, if they are
/// known.
pub fn before_change(live: GraphRef<'_>) -> Option<Vec<Bytes>> {
    KNOWN.lock().iter().rev().find(|it| it.has_become(live))?.by_ggml.clone()
}

/// Returns the nodes of a graph that was changed, with the positions of their backends in the scheduler, if it has several.
///
/// # Safety
/// `graph` is live with its tensors for `'g`, and no other thread uses them.
pub unsafe fn backends_of<'g>(graph: NonNull<ggml_cgraph>) -> Option<Vec<(TensorRef<'g>, usize)>> {
    // SAFETY: live, as the caller guarantees.
    let live: GraphRef<'g> = unsafe { GraphRef::new(graph) };
    let known = KNOWN.lock();
    let backends = known.iter().rev().find(|it| it.is(graph, live))?.backends.as_ref()?;
    let assigned = |&node: &TensorRef<'g>| Some((node, *backends.get(&Address::of(node))?));
    Some(live.nodes.iter().filter_map(assigned).collect())
}

/// Returns `true` if a graph was changed that may have to be restored.
pub fn has_changed_graphs() -> bool {
    !KNOWN.lock().is_empty()
}

/// Restores a graph that was changed, if tensors of it were meanwhile restored for another graph, or if `is_wanted` returns
/// `true` for one that only tiles are computed of.
///
/// # Safety
/// `graph` is live with its tensors, no other thread uses them, and no [`GraphRef`] of it is used afterwards.
pub unsafe fn undo_own(graph: NonNull<ggml_cgraph>, is_wanted: impl Fn(TensorRef<'_>) -> bool) {
    let mut known = KNOWN.lock();
    // SAFETY: live, as the caller guarantees.
    let live = unsafe { GraphRef::new(graph) };
    let Some(at) = known.iter().position(|it| it.is(graph, live)) else { return };
    // SAFETY: the graph was built of these tensors, and is live.
    let is_restored = live.nodes.iter().any(|node| node.stays_whole());
    // SAFETY: as above.
    let is_wanted = || known[at].replaced.iter().any(|tensor| is_wanted(unsafe { tensor.tensor() }));
    if !is_restored && !is_wanted() {
        return;
    }
    let own = known.remove(at);
    let leafs = live.leafs.len();
    // SAFETY: the graph was built of these tensors, and is live; no `GraphRef` of it is used from here on.
    unsafe { own.restore_graph(graph, leafs, true) };
}

/// Restores a graph that was changed and is not allocated, and may be changed again.
///
/// # Safety
/// `graph` is live with its tensors, no other thread uses them, and no [`GraphRef`] of it is used afterwards.
pub unsafe fn undo_reserved(graph: NonNull<ggml_cgraph>) {
    let mut known = KNOWN.lock();
    // SAFETY: live, as the caller guarantees.
    let live = unsafe { GraphRef::new(graph) };
    let Some(at) = known.iter().position(|it| it.is(graph, live)) else { return };
    let own = known.remove(at);
    let leafs = live.leafs.len();
    // SAFETY: the graph was built of these tensors, and is live; no `GraphRef` of it is used from here on.
    unsafe { own.restore_graph(graph, leafs, false) };
}

/// Restores tensors of a graph that was not changed itself to their state before another graph that shares them was changed, as
/// far as they have no memory: the other graph cannot run before it is allocated again.
///
/// # Safety
/// `graph` is live with its tensors, and no other thread uses them.
pub unsafe fn undo_shared(graph: NonNull<ggml_cgraph>, ranges: &AddedRanges) {
    // SAFETY: live, as the caller guarantees.
    let live = unsafe { GraphRef::new(graph) };
    // A view that was built of a tensor after its graph was changed is one of the memory that tiles write.
    let is_later_view = |node: &TensorRef<'_>| {
        !node.is_changed() && !ranges.hold(*node) && node.view_source().is_some_and(|root| ranges.hold(root))
    };
    if live.nodes.iter().any(is_later_view) {
        return;
    }
    let mut listed: Vec<usize> = Vec::new();
    for &node in live.nodes {
        let referred = [Some(node), node.view_source()].into_iter().chain(node.source_slots().iter().copied());
        listed.extend(referred.flatten().map(TensorRef::address));
    }
    listed.sort_unstable();
    let is_among = |it: Address| listed.binary_search(&it.0.as_ptr().addr()).is_ok();
    for other in KNOWN.lock().iter().filter(|it| !it.is(graph, live)) {
        let mut shared = other.changed.iter().filter(|changed| is_among(changed.tensor)).peekable();
        // SAFETY: the graph refers to it, and is live.
        let has_memory = |changed: &Changed| !unsafe { changed.tensor.tensor() }.data().is_null();
        if shared.peek().is_some() && !shared.any(has_memory) {
            // SAFETY: the graph refers to these tensors, and was built before they were changed: also of what they were
            // made of.
            unsafe { other.restore(true, is_among) };
        }
    }
}
