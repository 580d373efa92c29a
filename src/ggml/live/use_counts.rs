//! How often the tensors of a graph are used, as ggml counts while it builds a graph: backends fuse a node with the
//! only one that uses it.

use std::ptr::NonNull;

use crate::ggml::bindings::ggml_cgraph;

use super::runtime::Runtime;
use super::tensor::TensorRef;
use super::visited::Visited;

/// The counts of one graph, by tensor.
#[derive(Debug)]
pub struct UseCounts(Visited);

impl UseCounts {
    /// Finds the counts of a graph; `None` in versions of ggml before 2025-06-29, which do not count and do not fuse.
    ///
    /// # Safety
    /// See [`Visited::of`].
    pub unsafe fn of(runtime: &Runtime, graph: NonNull<ggml_cgraph>) -> Option<Self> {
        // SAFETY: live, of this ggml, and used by no other thread, as the caller guarantees.
        let visited = unsafe { Visited::of(runtime, graph) };
        visited.has_use_counts().then_some(Self(visited))
    }

    /// Returns the count of a tensor; 0 if the graph does not have it.
    pub fn of_tensor(&self, tensor: TensorRef<'_>) -> i32 {
        // SAFETY: a count of a live graph.
        self.0.use_count(tensor).map_or(0, |count| unsafe { count.read() })
    }

    /// Sets the count of a tensor, if the graph has it.
    pub fn set(&mut self, tensor: TensorRef<'_>, count: i32) {
        if let Some(place) = self.0.use_count(tensor) {
            // SAFETY: a count of a live graph; nothing else refers to it.
            unsafe { place.write(count) };
        }
    }
}
