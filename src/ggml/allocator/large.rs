//! Graphs with a tensor that is larger than what its buffer type allocates at once. ggml-alloc asks for it nevertheless, which some
//! devices grant, so tensors are kept to that limit only once an allocation has failed.

use std::ptr::NonNull;

use crate::ggml::bindings::ggml_cgraph;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::refusal::Refusal;
use crate::ggml::version::SIGNATURE;
use crate::placement::Bytes;

use super::Allocator;
use super::budget::undo_reserved;
use super::passes::Passes;

impl Allocator {
    /// Tries again, if a graph could not be allocated because a tensor is larger than what the buffer type allocates at once: with that
    /// tensor in tiles. If that fails too, the graph is as it was.
    ///
    /// # Errors
    /// Those of the attempts.
    ///
    /// # Safety
    /// `graph` is live with its tensors, no other thread uses them, and no [`GraphRef`] of it is used afterwards.
    pub(super) unsafe fn or_in_tiles(
        &mut self,
        graph: NonNull<ggml_cgraph>,
        mut attempt: impl FnMut(&mut Self) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let done = attempt(self);
        if !matches!(done, Err(Refusal::NoMemory { .. })) {
            return done;
        }
        if self.passes.as_ref().is_some_and(|passes| passes.limits_tensors()) {
            // It was in tiles from the start.
            // SAFETY: live, and used by no other thread: see "# Safety".
            unsafe { undo_reserved(graph) };
            return done;
        }
        // SAFETY: as above.
        let Some([most, largest]) = (unsafe { self.too_large(graph) }) else { return done };
        let are_compared = self.activity.are_events_requested();
        self.passes.get_or_insert_with(|| Passes::none(are_compared)).limit_tensors(true);
        // For a budget that is larger than a buffer, it may be in tiles that are larger, too.
        // SAFETY: as above.
        unsafe { undo_reserved(graph) };
        let again = attempt(self);
        if again.is_ok() {
            self.planner.runtime.log_warning(&format!(
                "{SIGNATURE}{} allocates {most} bytes at once, and a tensor needs {largest}: it is computed in tiles\n",
                self.planner.types.list[0].name()
            ));
        } else {
            self.passes.iter_mut().for_each(|passes| passes.limit_tensors(false));
            // SAFETY: as above.
            unsafe { undo_reserved(graph) };
        }
        again
    }

    /// Returns what the buffer type allocates at once, and the bytes of the largest tensor if that is more, and may be in tiles.
    ///
    /// # Safety
    /// `graph` is live with its tensors, and no other thread uses them.
    unsafe fn too_large(&self, graph: NonNull<ggml_cgraph>) -> Option<[Bytes; 2]> {
        let [buffer_type] = *self.planner.types.list else { return None };
        let most = buffer_type.max_size().filter(|_| buffer_type.tile_kernels().is_some())?;
        // SAFETY: live, and used by no other thread: see "# Safety".
        let live = unsafe { GraphRef::new(graph) };
        let owners = live.nodes.iter().filter(|node| !node.has_memory() && node.view_source().is_none());
        let largest = owners.map(|node| buffer_type.alloc_size(*node)).max()?;
        // SAFETY: as above.
        (largest > most && unsafe { GraphRef::is_whole(graph) }).then_some([most, largest])
    }
}
