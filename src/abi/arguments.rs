//! What the arguments of a call stand for: the ggml that they belong to, and buffers by their ids.

use std::ffi::c_int;
use std::fmt;
use std::ptr::NonNull;

use crate::ggml::{Allocator, BufferType, Ggml, GraphRef, NoGgml, Runtime, TensorRef, ggml_of_buffers, ggml_of_type};
use crate::ggml::{ggml_backend_buffer_type, ggml_cgraph};

use super::call::Call;

/// Finds the ggml of tensors by the buffers that they, or the tensors that they are views of, are in.
///
/// # Errors
/// [`NoGgml`].
pub(super) fn ggml_of_tensors(tensors: &[TensorRef<'_>]) -> Result<&'static Ggml, NoGgml> {
    let buffers = tensors.iter().flat_map(|tensor| buffers_of(*tensor));
    // SAFETY: the buffers of live tensors are live.
    unsafe { ggml_of_buffers(buffers) }
}

/// Finds the ggml of a buffer type or, where that is NULL, of the tensors of a graph.
///
/// # Errors
/// [`NoGgml`].
///
/// # Safety
/// `buft` is NULL or live; `graph` and its tensors are live, and no other thread changes them.
pub(super) unsafe fn ggml_of_graph(
    buft: *mut ggml_backend_buffer_type,
    graph: NonNull<ggml_cgraph>,
) -> Result<&'static Ggml, NoGgml> {
    if !buft.is_null() {
        // SAFETY: not NULL, so a live buffer type: see "# Safety".
        return unsafe { ggml_of_type(buft) };
    }
    // The graph is read only where its layout is known.
    let buffers = std::iter::once_with(|| {
        // SAFETY: live, and changed by no other thread: see "# Safety".
        let graph = unsafe { GraphRef::new(graph) };
        let listed = graph.leafs.iter().chain(graph.nodes);
        listed.flat_map(|tensor| tensor.sources().chain([*tensor])).flat_map(buffers_of)
    });
    // SAFETY: the buffers of live tensors are live.
    unsafe { ggml_of_buffers(buffers.flatten()) }
}

fn buffers_of(tensor: TensorRef<'_>) -> impl Iterator<Item = *const u8> {
    let tensors = std::iter::once(tensor).chain(tensor.view_source());
    tensors.map(|tensor| tensor.buffer().cast_const().cast())
}

/// Returns a buffer type, if it is not NULL.
///
/// # Safety
/// `buft` is NULL, or a live buffer type of this ggml.
pub(super) unsafe fn buffer_type(runtime: &'static Runtime, buft: *mut ggml_backend_buffer_type) -> Option<BufferType> {
    // SAFETY: not NULL, so live, and of this ggml: see "# Safety".
    NonNull::new(buft).map(|buft| unsafe { BufferType::new(runtime, buft) })
}

/// Buffer ids of a graph. A list is `None` where all ids are 0: the caller passed NULL, or there is only one buffer.
#[derive(Debug)]
pub(super) struct BufferIds {
    /// One for each node.
    pub(super) nodes: Option<Vec<usize>>,
    /// One for each leaf.
    pub(super) leafs: Option<Vec<usize>>,
}

/// An id that is negative or not less than the number of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadId {
    argument: &'static str,
    index: usize,
    id: c_int,
}

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}] is {}", self.argument, self.index, self.id)
    }
}

impl BufferIds {
    /// Reads the ids of `graph`, each of which must be less than `buffers`.
    ///
    /// # Errors
    /// [`BadId`]: the first that is not.
    ///
    /// # Safety
    /// Each list is NULL, or holds as many ids as `graph` has nodes or leafs.
    pub(super) unsafe fn read(
        graph: GraphRef<'_>,
        nodes: *const c_int,
        leafs: *const c_int,
        buffers: usize,
    ) -> Result<Self, BadId> {
        // SAFETY: NULL, or an id for each node: see "# Safety".
        let nodes = unsafe { read_list("node_buffer_ids", nodes, graph.nodes.len(), buffers) };
        // SAFETY: NULL, or an id for each leaf: see "# Safety".
        let leafs = unsafe { read_list("leaf_buffer_ids", leafs, graph.leafs.len(), buffers) };
        Ok(Self { nodes: nodes?, leafs: leafs? })
    }

    /// Reads the ids of `graph`, which must all be of buffers of `allocator`; aborts with the name of the list
    /// otherwise.
    ///
    /// # Safety
    /// Each list is NULL, or holds as many ids as `graph` has nodes or leafs.
    pub(super) unsafe fn read_for(
        call: Call,
        allocator: &Allocator,
        graph: GraphRef<'_>,
        nodes: *const c_int,
        leafs: *const c_int,
    ) -> Self {
        let count = allocator.buffer_count();
        // SAFETY: NULL or long enough: see "# Safety".
        let ids = unsafe { Self::read(graph, nodes, leafs, count) };
        ids.unwrap_or_else(|bad| abort_on_id(call, &bad, count))
    }
}

/// Returns the argument `buffer_id` as an index of a buffer of `allocator`; aborts if there is no such buffer.
pub(super) fn checked_buffer_id(call: Call, allocator: &Allocator, id: c_int) -> usize {
    let count = allocator.buffer_count();
    index_below(count, id).unwrap_or_else(|| abort_on_id(call, &format_args!("buffer_id is {id}"), count))
}

/// # Safety
/// `ids` is NULL, or holds `count` ids.
unsafe fn read_list(
    argument: &'static str,
    ids: *const c_int,
    count: usize,
    buffers: usize,
) -> Result<Option<Vec<usize>>, BadId> {
    let Some(ids) = NonNull::new(ids.cast_mut()) else { return Ok(None) };
    // SAFETY: `count` ids: see "# Safety".
    let ids = unsafe { std::slice::from_raw_parts(ids.as_ptr(), count) };
    // No id is larger than all bits together. Negative ids are large unsigned numbers.
    let bits = ids.iter().fold(0, |bits, id| bits | id.cast_unsigned());
    if bits as usize >= buffers
        && let Some(index) = ids.iter().position(|&id| index_below(buffers, id).is_none())
    {
        return Err(BadId { argument, index, id: ids[index] });
    }
    // With one buffer all are 0.
    Ok((buffers > 1).then(|| ids.iter().filter_map(|&id| index_below(buffers, id)).collect()))
}

fn index_below(count: usize, id: c_int) -> Option<usize> {
    usize::try_from(id).ok().filter(|&id| id < count)
}

fn abort_on_id(call: Call, bad: &dyn fmt::Display, count: usize) -> ! {
    call.abort(&format_args!("{bad}, and the allocator has {count} buffers"))
}
