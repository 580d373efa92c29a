//! Graphs with a tensor that is larger than what its buffer type allocates at once. ggml-alloc asks for it nevertheless, which some
//! devices grant, so tensors are kept to that limit only once an allocation has failed.

use std::ptr::NonNull;

use crate::ggml::bindings::ggml_cgraph;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::refusal::Refusal;
use crate::ggml::version::SIGNATURE;

use super::Allocator;
use super::passes::Passes;

impl Allocator {
    /// Returns `true` if a graph could not be allocated because a tensor is larger than what the buffer type allocates at once, and
    /// is to be computed in tiles from now on.
    ///
    /// # Safety
    /// `graph` is live with its tensors, and no other thread uses them.
    pub(super) unsafe fn limits_tensors(&mut self, graph: NonNull<ggml_cgraph>, done: &Result<(), Refusal>) -> bool {
        let [buffer_type] = *self.planner.types.list else { return false };
        let Some(most) = buffer_type.max_size().filter(|_| matches!(done, Err(Refusal::NoMemory { .. }))) else {
            return false;
        };
        // SAFETY: live, and used by no other thread: see "# Safety".
        let live = unsafe { GraphRef::new(graph) };
        let sizes = live.nodes.iter().filter(|node| !node.has_memory()).map(|node| buffer_type.alloc_size(*node));
        let largest = sizes.max().unwrap_or(0);
        // SAFETY: as above.
        if largest <= most || !unsafe { GraphRef::is_whole(graph) } {
            return false;
        }
        let are_compared = self.activity.are_events_requested();
        let is_new = self.passes.get_or_insert_with(|| Passes::none(are_compared)).limit_tensors();
        if is_new {
            self.planner.runtime.log_warning(&format!(
                "{SIGNATURE}{} allocates {most} bytes at once, and a tensor needs {largest}: it is computed in tiles\n",
                buffer_type.name()
            ));
        }
        is_new
    }
}
