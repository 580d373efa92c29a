//! What the arguments of a call belong to: which of the loaded ggmls, and an allocator of lastuse or not.

use std::ptr::NonNull;

use crate::ggml::{
    Allocator, BufferType, Ggml, GraphRef, NoGgml, Runtime, TensorRef, ggml_of_buffers, ggml_of_type, set_current_ggml,
};
use crate::ggml::{ggml_backend_buffer_type, ggml_cgraph, ggml_gallocr};

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

/// Returns `galloc` if lastuse has made it, and makes its ggml the current one of this thread.
///
/// # Safety
/// `galloc` is live for `'g` and used by this thread only.
pub(super) unsafe fn made_by_lastuse<'g>(galloc: NonNull<ggml_gallocr>) -> Option<&'g mut Allocator> {
    // SAFETY: live: see "# Safety".
    let mut made = unsafe { Allocator::from_c(galloc) }?;
    // SAFETY: an allocator of lastuse, live for `'g` and used by this thread only.
    let allocator = unsafe { made.as_mut() };
    set_current_ggml(Some(&allocator.runtime().functions));
    Some(allocator)
}
