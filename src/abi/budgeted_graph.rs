//! What the passes that make a graph fit a budget take: a ggml whose plans are by lastuse, and tensors to retain.

use std::ffi::c_int;
use std::ptr::NonNull;

use crate::ggml::{Runtime, TensorRef, abort, ggml_backend_buffer_type, ggml_cgraph, ggml_tensor};

use super::abort::required;
use super::ggml_of_arguments::ggml_of_graph;
use super::last_error::fail;

/// Returns the runtime of the ggml that the arguments belong to; `None`, with the last error set, where no ggml is found
/// or ggml's own allocator does the work.
///
/// # Safety
/// `buft` is NULL or live; `graph` and its tensors are live, and no other thread uses them.
pub(super) unsafe fn served_runtime(
    function: &str,
    buft: *mut ggml_backend_buffer_type,
    graph: NonNull<ggml_cgraph>,
) -> Option<&'static Runtime> {
    // SAFETY: NULL or live, as the caller guarantees.
    let ggml = unsafe { ggml_of_graph(buft, graph) }.inspect_err(|why| fail(function, why)).ok()?;
    let runtime = ggml.served();
    if runtime.is_none() {
        fail(function, &"lastuse is not enabled, so that no plan would keep the budget");
    }
    runtime
}

/// Returns the retained tensors; aborts where one is NULL.
///
/// # Safety
/// `list` points to as many live tensors as `count` states.
pub(super) unsafe fn retained<'g>(function: &str, list: *const *mut ggml_tensor, count: c_int) -> Vec<TensorRef<'g>> {
    let count = usize::try_from(count).unwrap_or(0);
    if count == 0 {
        return Vec::new();
    }
    let list = required(list.cast_mut(), function, "params->retained");
    // SAFETY: that many pointers, as the caller guarantees.
    let list = unsafe { std::slice::from_raw_parts(list.as_ptr(), count) };
    let tensor = |(at, &tensor): (usize, &*mut ggml_tensor)| {
        // SAFETY: NULL or live, as the caller guarantees.
        let tensor = unsafe { TensorRef::new(tensor) };
        tensor.unwrap_or_else(|| abort(file!(), line!(), &format!("{function}: params->retained[{at}] is NULL")))
    };
    list.iter().enumerate().map(tensor).collect()
}
