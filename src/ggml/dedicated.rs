//! Dedicated memory: results that lie in buffers of the program, so that they survive later graphs.

use crate::graph::{Flags, Op};

use crate::ggml::bindings::{ggml_context, ggml_tallocr};
use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::live::tensor_mut::TensorMut;
use crate::ggml::{STATUS_SUCCESS, USAGE_COMPUTE};

/// Places `tensor`, or a copy of it in `context`, at the next address of `talloc`, whose buffer is `buffer`. Returns the tensor
/// that lies there.
///
/// # Errors
/// Why it cannot be there. Nothing is changed then, but `context` may have a copy that nothing refers to.
///
/// # Safety
/// `context` is live and used by this thread only, and has room for one more tensor.
pub unsafe fn dedicate<'g>(
    runtime: &'static Runtime,
    context: *mut ggml_context,
    tensor: TensorRef<'g>,
    (talloc, buffer): (&mut ggml_tallocr, BufferRef),
) -> Result<TensorRef<'g>, String> {
    refusal(runtime, tensor, buffer).map_or(Ok(()), |why| Err(why.to_owned()))?;
    let buffer_type = runtime.type_of(buffer);
    let supports = |tensor: TensorRef<'_>| buffer_type.is_none_or(|buffer_type| buffer_type.supports(tensor));
    let mut there = tensor;
    if tensor.view_source().is_some() || !supports(tensor) {
        // SAFETY: a live context with room, and a live tensor.
        let copy = unsafe { (runtime.functions.ggml_cont)(context, tensor.as_ptr()) };
        // SAFETY: null, or a new tensor in a live context.
        there = unsafe { TensorRef::new(copy) }.ok_or("the context has no room for one more tensor")?;
        // SAFETY: the copy is new, and nothing refers to it. A context that allocates its tensors has given it memory.
        unsafe { TensorMut::new(there) }.clear_memory();
        if !supports(there) {
            return Err("the device of the buffer can neither compute t nor copy it".to_owned());
        }
    }
    let before = talloc.offset;
    if runtime.place_next(talloc, buffer, there)? != STATUS_SUCCESS {
        talloc.offset = before;
        // SAFETY: no reference into the tensor is held here, nor by callers.
        unsafe { TensorMut::new(there) }.clear_memory();
        return Err("the backend cannot initialize t in the buffer".to_owned());
    }
    // SAFETY: a live tensor of this thread.
    unsafe { (runtime.functions.ggml_set_output)(there.as_ptr()) };
    Ok(there)
}

/// Returns why neither `tensor` nor a copy can be in `buffer`.
fn refusal(runtime: &'static Runtime, tensor: TensorRef<'_>, buffer: BufferRef) -> Option<&'static str> {
    let is_compute_buffer = |buffer: BufferRef| runtime.usage(buffer) == USAGE_COMPUTE;
    let is_not_ordered = || runtime.is_quantized(tensor) && !runtime.is_contiguous(tensor);
    Some(match tensor.view_source() {
        _ if is_compute_buffer(buffer) => {
            "the buffer is a compute buffer, which each graph overwrites; use another one"
        }
        _ if runtime.type_of(buffer).is_some_and(BufferType::places_tensors_itself) => {
            "the buffer places its tensors itself; use a buffer of one device"
        }
        _ if runtime.operations.op(tensor.op()) == Op::None => {
            "no operation computes t; a tensor that the program fills gets memory by ggml_tallocr_alloc"
        }
        _ if tensor.is_replaced_by_tiles() => {
            "only tiles of t are computed since its graph was changed by lastuse_graph_tile; dedicate it before"
        }
        _ if Flags(tensor.flags()).has(Flags::INPUT) => "t is an input, which the program fills",
        _ if tensor.ne().contains(&0) => "t has no elements",
        None if tensor.has_memory() => {
            "t has memory already: it was dedicated before, or its graph is allocated; dedicate a tensor once, before its \
             graph is reserved or allocated"
        }
        Some(root) if root.buffer_ref().is_some_and(is_compute_buffer) => {
            "t is a view of a tensor whose graph is allocated already; dedicate it before its graph is reserved or allocated"
        }
        Some(_) if is_not_ordered() => "t is a view of quantized elements that are not in order",
        _ => return None,
    })
}
