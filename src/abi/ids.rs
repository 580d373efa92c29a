//! Buffer ids as C passes them: by node and by leaf, NULL where all are 0.

use std::ffi::c_int;
use std::fmt;
use std::ptr::NonNull;

use crate::ggml::GraphRef;

/// Buffer ids by node and by leaf; `None` where all are 0: the caller passed NULL, or there is one buffer only.
#[derive(Debug)]
pub struct Ids {
    /// By node.
    pub nodes: Option<Vec<usize>>,
    /// By leaf.
    pub leafs: Option<Vec<usize>>,
}

/// An id that stands for no buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadId {
    argument: &'static str,
    index: usize,
    id: c_int,
}

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}] is {}", self.argument, self.index, self.id)
    }
}

impl Ids {
    /// The ids for `graph`, each of which must be less than `buffers`.
    ///
    /// # Errors
    /// [`BadId`]: the first that is not.
    ///
    /// # Safety
    /// Each list is NULL, or holds as many ids as `graph` has nodes or leafs.
    pub unsafe fn read(
        graph: GraphRef<'_>,
        nodes: *const c_int,
        leafs: *const c_int,
        buffers: usize,
    ) -> Result<Self, BadId> {
        // SAFETY: the caller's promise.
        let nodes = unsafe { list("node_buffer_ids", nodes, graph.nodes.len(), buffers) };
        // SAFETY: the caller's promise.
        let leafs = unsafe { list("leaf_buffer_ids", leafs, graph.leafs.len(), buffers) };
        Ok(Self { nodes: nodes?, leafs: leafs? })
    }
}

/// # Safety
/// `ids` is NULL, or holds `count` ids.
unsafe fn list(
    argument: &'static str,
    ids: *const c_int,
    count: usize,
    buffers: usize,
) -> Result<Option<Vec<usize>>, BadId> {
    let Some(ids) = NonNull::new(ids.cast_mut()) else { return Ok(None) };
    // SAFETY: the caller's promise.
    let ids = unsafe { std::slice::from_raw_parts(ids.as_ptr(), count) };
    // Negative ids are large unsigned numbers.
    let largest = ids.iter().fold(0, |largest, id| id.cast_unsigned().max(largest));
    if largest as usize >= buffers
        && let Some(index) = ids.iter().position(|&id| checked_id(id, buffers).is_none())
    {
        return Err(BadId { argument, index, id: ids[index] });
    }
    // With one buffer all are 0.
    Ok((buffers > 1).then(|| ids.iter().filter_map(|&id| checked_id(id, buffers)).collect()))
}

/// The id, which must be less than `buffers`.
pub fn checked_id(id: c_int, buffers: usize) -> Option<usize> {
    usize::try_from(id).ok().filter(|&id| id < buffers)
}
