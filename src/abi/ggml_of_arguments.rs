//! Which of the loaded ggmls a call is for. Its arguments determine that; where none does, it is the ggml of the
//! caller.

use std::ptr::NonNull;

use crate::ggml::{
    Ggml, GraphRef, NoGgml, Runtime, SIGNATURE, TensorRef, abort, ggml_backend_buffer_type, ggml_cgraph,
    ggml_of_buffers, ggml_of_type,
};

use super::last_error::{fail, set_last_error};

/// Returns what was found of a ggml; aborts where none was found.
pub(super) fn found_or_abort<T>(found: Result<T, NoGgml>) -> T {
    found.unwrap_or_else(|why| abort(file!(), line!(), &format!("{SIGNATURE}{why}")))
}

/// Returns the runtime of the ggml that was found; `None`, with the last error set, where none was found, which is logged,
/// or its layout is unknown, which was logged when the ggml was found.
pub(super) fn runtime_or_fail(function: &str, found: Result<&'static Ggml, NoGgml>) -> Option<&'static Runtime> {
    let found = found.inspect_err(|why| fail(function, why)).ok()?;
    let known = found.runtime();
    if known.is_none() {
        set_last_error(function, &"this ggml has a layout that lastuse does not know");
    }
    known
}

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
        // SAFETY: a live buffer type, as the caller guarantees.
        return unsafe { ggml_of_type(buft) };
    }
    // The graph is read only where its layout is known.
    let buffers = std::iter::once_with(|| {
        // SAFETY: live, and changed by no other thread, as the caller guarantees.
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
