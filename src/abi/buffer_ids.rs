//! Buffer ids as C passes them: one id, or a list with an id for each node or leaf, NULL where all are 0.

use std::ffi::c_int;
use std::fmt;
use std::ptr::NonNull;

use crate::ggml::{Allocator, GraphRef};

use super::call::Call;

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
