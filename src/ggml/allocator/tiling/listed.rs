//! Added tensors in the graphs of programs.

use std::collections::HashSet;
use std::ptr::NonNull;

use crate::ggml::bindings::ggml_cgraph;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::live::tensor_mut::TensorMut;
use crate::ggml::refusal::Refusal;

use super::additions::AddedRanges;

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
/// compute.
pub fn follow_cleared_memory(graph: GraphRef<'_>, ranges: &AddedRanges) {
    let is_whole = |node: &TensorRef<'_>| !ranges.hold(*node) && node.view_source().is_some_and(|it| ranges.hold(it));
    if graph.nodes.iter().filter(|node| is_whole(node)).any(|node| node.data().is_null()) {
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
