//! Tensors that are added to graphs of programs: their memory, and which of them a graph lists. The memory stays as long as a
//! tensor of the program refers to it.
//!
//! Nothing tells when a program frees a graph: its context is one of ggml's. But no two live tensors overlap. So a
//! tensor is known to be gone when a live one lies where it was, and one that lies there and refers to nothing added is
//! a new one. Once all tensors that refer to an addition are gone, its memory is used again. A graph that is rebuilt in
//! the memory of an earlier one gets the same memory, and what lies in memory that is not used again stays.

use std::collections::HashSet;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::ggml::bindings::{ggml_cgraph, ggml_context, ggml_init_params, ggml_tensor};
use crate::ggml::live::lock::Lock;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::live::tensor_mut::TensorMut;
use crate::ggml::refusal::Refusal;

/// The tensors added to one graph.
#[derive(Debug)]
struct Addition {
    /// Aligned as ggml expects it.
    memory: Vec<u128>,
    /// The addresses of the tensors of the program that refer to added ones, as far as they may be live.
    referring: Vec<usize>,
}

impl Addition {
    fn range(&self) -> Range<usize> {
        let start = self.memory.as_ptr().addr();
        start..start + size_of_val(self.memory.as_slice())
    }

    /// Forgets the referring tensors that are gone. `live` are live tensors in the order of their addresses. Returns `true`
    /// if the last one is gone.
    fn forget_gone(&mut self, live: &[TensorRef<'_>]) -> bool {
        let (range, before) = (self.range(), self.referring.len());
        self.referring.retain(|&address| match overlapping(live, address) {
            Some(tensor) => tensor.address() == address && refers_to(tensor, &range),
            None => true,
        });
        self.referring.len() < before && self.referring.is_empty()
    }
}

/// Returns a tensor that overlaps one at this address.
fn overlapping<'g>(live: &[TensorRef<'g>], address: usize) -> Option<TensorRef<'g>> {
    let after = live.partition_point(|tensor| tensor.address() < address);
    let overlaps = |tensor: &&TensorRef<'_>| tensor.address().abs_diff(address) < size_of::<ggml_tensor>();
    let before = after.checked_sub(1).map(|at| &live[at]);
    live.get(after).into_iter().chain(before).find(overlaps).copied()
}

fn refers_to(tensor: TensorRef<'_>, range: &Range<usize>) -> bool {
    tensor.sources().chain(tensor.view_source()).any(|other| range.contains(&other.address()))
}

/// Those of the process.
#[derive(Debug)]
struct Added {
    additions: Vec<Addition>,
    /// Where they are, in the order of addresses.
    ranges: Option<Arc<[Range<usize>]>>,
}

static ADDED: Lock<Added> = Lock::new(Added { additions: Vec::new(), ranges: None });

/// Calls `add` with a context that has room for `bytes` of tensors, which are added to a graph of these tensors; they outlive
/// the context. Returns `None`, without calling `add`, if there is no memory for the context.
pub fn add_tensors<T>(
    runtime: &Runtime,
    graph: &[TensorRef<'_>],
    bytes: usize,
    add: impl FnOnce(NonNull<ggml_context>) -> T,
) -> Option<T> {
    let mut live = graph.to_vec();
    live.sort_unstable_by_key(|tensor| tensor.address());
    let mut memory = memory_for(&live, bytes);
    let mem_buffer = memory.as_mut_ptr().cast::<c_void>();
    let params = ggml_init_params { mem_size: bytes, mem_buffer, no_alloc: true };
    // SAFETY: that many aligned bytes, to which no live tensor refers.
    let context = NonNull::new(unsafe { (runtime.functions.ggml_init)(params) })?;
    let added = add(context);
    // SAFETY: ggml frees its own struct; the tensors are in memory that is ours.
    unsafe { (runtime.functions.ggml_free)(context.as_ptr()) };
    let mut addition = Addition { memory, referring: Vec::new() };
    let range = addition.range();
    let referring = live.iter().filter(|tensor| refers_to(**tensor, &range));
    addition.referring = referring.map(|tensor| tensor.address()).collect();
    if !addition.referring.is_empty() {
        let mut added_before = ADDED.lock();
        added_before.additions.push(addition);
        added_before.ranges = None;
    }
    Some(added)
}

/// Returns memory for added tensors of a graph of `live` tensors: that of an earlier graph which is gone, if it is about as
/// large, so that equal graphs have equal addresses. Frees that of others which are gone.
fn memory_for(live: &[TensorRef<'_>], bytes: usize) -> Vec<u128> {
    let words = bytes.div_ceil(size_of::<u128>()).max(1);
    let mut added = ADDED.lock();
    let gone = added.additions.extract_if(.., |addition| addition.forget_gone(live));
    let gone: Vec<Vec<u128>> = gone.map(|addition| addition.memory).collect();
    added.ranges = None;
    let fits = |memory: &Vec<u128>| memory.len() >= words && memory.len() / 4 <= words;
    gone.into_iter().find(fits).unwrap_or_else(|| vec![0; words])
}

/// Where the added tensors of the process are.
#[derive(Debug)]
pub struct AddedRanges(Arc<[Range<usize>]>);

impl AddedRanges {
    /// Returns where they are now.
    pub fn now() -> Self {
        let mut added = ADDED.lock();
        let Added { additions, ranges } = &mut *added;
        let sorted = || {
            let mut ranges: Vec<Range<usize>> = additions.iter().map(Addition::range).collect();
            ranges.sort_by_key(|range| range.start);
            ranges.into()
        };
        Self(Arc::clone(ranges.get_or_insert_with(sorted)))
    }

    /// Returns `true` if nothing was added to any graph.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if the tensor was added to a graph.
    pub fn hold(&self, tensor: TensorRef<'_>) -> bool {
        let address = tensor.address();
        let before = self.0.partition_point(|range| range.start <= address);
        before.checked_sub(1).is_some_and(|at| self.0[at].contains(&address))
    }
}

/// Which added tensors a graph lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// None, and no node reads one.
    None,
    /// All that its nodes read.
    All,
    /// Not all that its nodes read: it was built before another graph was tiled that has tensors in common with it.
    Missing,
}

/// Returns which added tensors a graph lists.
pub fn listed(graph: GraphRef<'_>, ranges: &AddedRanges) -> Listed {
    if ranges.is_empty() {
        return Listed::None;
    }
    let listed: HashSet<TensorRef<'_>> = graph.nodes.iter().copied().filter(|node| ranges.hold(*node)).collect();
    let mut read = graph.nodes.iter().flat_map(|node| node.sources()).filter(|source| ranges.hold(*source));
    if read.any(|source| !listed.contains(&source)) {
        return Listed::Missing;
    }
    if listed.is_empty() { Listed::None } else { Listed::All }
}

/// Clears the addresses of the added tensors of a graph if the program has cleared those of its tensors that tiles
/// compute, or that read copies.
pub fn follow_cleared_memory(graph: GraphRef<'_>, ranges: &AddedRanges) {
    let is_changed = |node: &TensorRef<'_>| !ranges.hold(*node) && node.is_changed();
    if graph.nodes.iter().filter(|node| is_changed(node)).any(|node| node.data().is_null()) {
        for &node in graph.nodes.iter().filter(|node| ranges.hold(**node)) {
            // SAFETY: no reference into the tensor is held.
            unsafe { TensorMut::new(node) }.clear_memory();
        }
    }
}

/// Lists the added tensors that nodes read, each before its first reader.
///
/// # Errors
/// [`Refusal::NoRoom`].
///
/// # Safety
/// `graph` is live with its tensors, no other thread uses them, and no [`GraphRef`] of it is used afterwards.
pub unsafe fn complete_lists(graph: NonNull<ggml_cgraph>, ranges: &AddedRanges) -> Result<(), Refusal> {
    // SAFETY: live, as the caller guarantees.
    let live = unsafe { GraphRef::new(graph) };
    let mut complete = Complete { ranges, listed: live.nodes.iter().copied().collect(), nodes: Vec::new() };
    for &node in live.nodes {
        node.sources().for_each(|source| complete.list(source));
        complete.nodes.push(node);
    }
    let (leafs, needed) = (live.leafs.len(), complete.nodes.len());
    // SAFETY: live, as the caller guarantees.
    let capacity = unsafe { GraphRef::capacity(graph) };
    if needed > capacity {
        return Err(Refusal::NoRoom { capacity, needed });
    }
    // SAFETY: there is room; no other thread uses the live graph, and no `GraphRef` of it is used from here on.
    unsafe { GraphRef::replace_lists(graph, &complete.nodes, leafs) };
    Ok(())
}

/// The nodes of a graph, with their sources.
struct Complete<'a, 'g> {
    ranges: &'a AddedRanges,
    listed: HashSet<TensorRef<'g>>,
    nodes: Vec<TensorRef<'g>>,
}

impl<'g> Complete<'_, 'g> {
    /// Lists an added tensor after its sources, unless it is listed.
    fn list(&mut self, tensor: TensorRef<'g>) {
        if self.ranges.hold(tensor) && self.listed.insert(tensor) {
            tensor.sources().for_each(|source| self.list(source));
            self.nodes.push(tensor);
        }
    }
}
