//! Whether a program uses an allocator itself, or a scheduler does for it.
//!
//! Programs with a scheduler set their inputs before each run. Others may set one once and compute several times, so
//! their inputs are kept where ggml's own allocator leaves them intact
//! ([`Rules::keep_inputs`](crate::graph::Rules::keep_inputs)). A scheduler creates its allocator by
//! `ggml_gallocr_new_n`, reserves with a buffer id for each node, and allocates a copy of the graph.

use std::ptr::NonNull;

use crate::ggml::bindings::ggml_cgraph;
use crate::ggml::live::tensor::GraphRef;

use super::Allocator;

impl Allocator {
    /// Notes that the program does something that no scheduler does. Plans that were made before keep no inputs, and
    /// are dropped.
    pub fn note_direct_use(&mut self) {
        if self.types.use_directly() {
            self.plans.clear(&mut self.workspace);
            self.tilings.clear();
        }
    }

    /// Notes that `graph` is to be allocated. That is direct use if nothing was reserved and it is the program's own graph.
    ///
    /// # Safety
    /// `graph` points to a live graph that no other thread changes.
    pub unsafe fn note_use(&mut self, graph: NonNull<ggml_cgraph>) {
        // SAFETY: the same promise.
        if self.plans.is_empty() && unsafe { GraphRef::is_whole(graph) } {
            self.note_direct_use();
        }
    }
}
