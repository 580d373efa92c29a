//! Allocates all tensors of a context: by the buffer type if ggml has a function for that, and otherwise here.

use std::ffi::c_int;
use std::ptr::NonNull;

use crate::placement::{Bytes, padded};

use crate::ggml::bindings::{ggml_backend_buffer, ggml_context, ggml_tensor};
use crate::ggml::context::on_demand::take_when_written;
use crate::ggml::linking::functions::Functions;
use crate::ggml::live::buffer_ref::own_allocation;
use crate::ggml::live::buffers::{Buffer, BufferType};
use crate::ggml::live::recycled::free_all;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::live::tensor_mut::TensorMut;
use crate::ggml::refusal::Refusal;

/// The function named in ggml's messages, which are kept.
const NAME: &str = "alloc_tensor_range";

/// Allocates all tensors of `context` without memory: in their order, in several buffers when one would exceed the
/// largest that the type allows. Returns null when no tensor needs memory. With `on_demand`, the buffer takes memory when it is
/// written, if its type can.
///
/// # Errors
/// [`Refusal::TooLarge`] or [`Refusal::ContextFailed`]; nothing is allocated then.
///
/// # Safety
/// `context` is a live context of this ggml, and no other thread uses it or its tensors.
pub unsafe fn allocate_context(
    context: NonNull<ggml_context>,
    buffer_type: BufferType,
    on_demand: bool,
) -> Result<*mut ggml_backend_buffer, Refusal> {
    // SAFETY: live, and used by no other thread: see "# Safety".
    let allocate = || unsafe { try_to_allocate(context, buffer_type, on_demand) };
    allocate().or_else(|why| if free_all() { allocate() } else { Err(why) })
}

/// As [`allocate_context`], with the memory that is free now.
///
/// # Safety
/// Those of [`allocate_context`].
unsafe fn try_to_allocate(
    context: NonNull<ggml_context>,
    buffer_type: BufferType,
    on_demand: bool,
) -> Result<*mut ggml_backend_buffer, Refusal> {
    // SAFETY: live, and used by no other thread: see "# Safety".
    let tensors = unsafe { tensors(context, &buffer_type.runtime().functions) };
    let is_unplaced = |tensor: &TensorRef<'_>| !tensor.has_memory();
    let unplaced: Vec<TensorRef<'_>> = tensors.iter().copied().filter(is_unplaced).collect();
    // SAFETY: a live context and its tensors.
    let allocated = unsafe { allocate_by_type(context, &tensors, buffer_type) };
    let buffer = allocated.unwrap_or_else(|| {
        let parts = split(&tensors, buffer_type);
        let buffers: Option<Vec<Buffer>> = parts.iter().map(|part| part.allocate(&tensors, buffer_type)).collect();
        join(buffers.unwrap_or_default(), buffer_type)
    });
    if buffer.is_null() && split(&unplaced, buffer_type).is_empty() {
        return Ok(buffer);
    }
    if !buffer.is_null() && place_left_views(&tensors, buffer_type) {
        if let Some(buffer) = NonNull::new(buffer).filter(|_| on_demand) {
            // SAFETY: a new buffer, which this thread alone knows.
            unsafe { take_when_written(buffer, buffer_type) };
        }
        return Ok(buffer);
    }
    let why = why_not_allocated(&unplaced, buffer_type);
    for &tensor in &unplaced {
        // SAFETY: no reference into the tensor is held, and no other thread uses it.
        unsafe { TensorMut::new(tensor) }.clear_memory();
    }
    if !buffer.is_null() {
        // SAFETY: a new buffer, in which no tensor lies any more.
        unsafe { (buffer_type.runtime().functions.ggml_backend_buffer_free)(buffer) };
    }
    Err(why)
}

/// Places the views that have no memory although their roots do: ggml leaves out those after the last tensor that goes into
/// a buffer, where that buffer is full. Returns `false`, after a message, if the backend cannot initialize one.
fn place_left_views(tensors: &[TensorRef<'_>], buffer_type: BufferType) -> bool {
    let runtime = buffer_type.runtime();
    tensors.iter().filter(|view| is_ready_view(**view)).all(|&view| {
        let placed = runtime.place_view(view);
        if placed.is_err() {
            runtime.log_error(&failed_to_initialize(view));
        }
        placed.is_ok()
    })
}

/// Returns why `unplaced` tensors, some of which may have got memory, could not all be allocated.
fn why_not_allocated(unplaced: &[TensorRef<'_>], buffer_type: BufferType) -> Refusal {
    let buffer = buffer_type.name();
    let next = unplaced.iter().copied().find(|&tensor| needs_memory(tensor));
    if let (Some(tensor), Some(limit)) = (next, buffer_type.max_size()) {
        let size = padded(buffer_type.alloc_size(tensor), buffer_type.alignment());
        // ggml does not tell what has failed. If the next buffer can be allocated, the cause was something else.
        if size > limit && buffer_type.allocate(size).is_none() {
            return Refusal::TooLarge { tensor: tensor.name(), size, buffer, limit };
        }
    }
    Refusal::ContextFailed { buffer }
}

/// Returns `true` if `tensor` is a view that can be placed in the memory of its root. ggml refuses to place views of a
/// root that has an address but no buffer; they need nothing.
pub fn is_ready_view(tensor: TensorRef<'_>) -> bool {
    tensor.buffer().is_null()
        && tensor.view_source().is_some_and(|root| !root.buffer().is_null() && !root.data().is_null())
}

fn failed_to_initialize(tensor: TensorRef<'_>) -> String {
    format!("{NAME}: failed to initialize tensor {}\n", tensor.name())
}

/// Lets the buffer type allocate and place `tensors`, which are of `context`; null if it fails. `None` if this ggml has
/// no function for that.
///
/// # Safety
/// The context and the tensors are live.
pub unsafe fn allocate_by_type(
    context: NonNull<ggml_context>,
    tensors: &[TensorRef<'_>],
    buffer_type: BufferType,
) -> Option<*mut ggml_backend_buffer> {
    let functions = &buffer_type.runtime().functions;
    let (mut pointers, count) = pointers(tensors);
    if let Some(allocate) = functions.ggml_backend_buft_alloc_buffer_n
        && count > 0
        && (own_allocation().is_none() || buffer_type.places_tensors_itself())
    {
        // SAFETY: that many live tensors; ggml keeps no reference to the list.
        return Some(unsafe { allocate(buffer_type.as_ptr(), pointers.as_mut_ptr(), count) });
    }
    let allocate = functions.ggml_backend_meta_alloc_ctx_tensors_from_buft.filter(|_| buffer_type.is_meta())?;
    // SAFETY: a live context and a meta buffer type.
    Some(unsafe { allocate(context.as_ptr(), buffer_type.as_ptr()) })
}

/// Returns the bytes that [`allocate_context`] would allocate.
///
/// # Safety
/// `context` is a live context of this ggml.
pub unsafe fn context_size(context: NonNull<ggml_context>, buffer_type: BufferType) -> Bytes {
    let functions = &buffer_type.runtime().functions;
    // SAFETY: a live context of this ggml, as the caller guarantees.
    let tensors = unsafe { tensors(context, functions) };
    let (mut pointers, count) = pointers(&tensors);
    if let Some(size) = functions.ggml_backend_buft_get_alloc_size_n
        && count > 0
    {
        // SAFETY: that many live tensors; ggml keeps no reference to the list.
        return unsafe { size(buffer_type.as_ptr(), pointers.as_mut_ptr(), count) as Bytes };
    }
    split(&tensors, buffer_type).iter().map(|part| part.size).sum()
}

/// Returns the tensors as an array for C, and its length.
fn pointers(tensors: &[TensorRef<'_>]) -> (Vec<*mut ggml_tensor>, c_int) {
    let count = c_int::try_from(tensors.len()).expect("fewer than 2^31 tensors");
    (tensors.iter().map(|tensor| tensor.as_ptr()).collect(), count)
}

/// Returns the tensors of a context, in their order.
///
/// # Safety
/// `context` is a live context of this ggml.
pub unsafe fn tensors<'c>(context: NonNull<ggml_context>, functions: &Functions) -> Vec<TensorRef<'c>> {
    // SAFETY: a live context.
    let first = unsafe { (functions.ggml_get_first_tensor)(context.as_ptr()) };
    // SAFETY: a tensor of the context, or null.
    let first = unsafe { TensorRef::new(first) };
    // SAFETY: a live context of this ggml, as the caller guarantees, and a tensor of it.
    unsafe { tensors_from(context, functions, first) }.collect()
}

/// Iterates over `first` and the tensors of the context after it.
///
/// # Safety
/// `context` is a live context of this ggml, and is not changed meanwhile; `first` is a tensor of it.
pub unsafe fn tensors_from<'c>(
    context: NonNull<ggml_context>,
    functions: &Functions,
    first: Option<TensorRef<'c>>,
) -> impl Iterator<Item = TensorRef<'c>> {
    std::iter::successors(first, move |tensor| {
        // SAFETY: a tensor of the context.
        let next = unsafe { (functions.ggml_get_next_tensor)(context.as_ptr(), tensor.as_ptr()) };
        // SAFETY: the next tensor of the context, or null.
        unsafe { TensorRef::new(next) }
    })
}

/// Consecutive tensors that go into one buffer of `size` bytes.
struct BufferContents {
    first: usize,
    end: usize,
    size: Bytes,
}

/// Splits the tensors where the next one would exceed the largest buffer. Parts without bytes are left out.
fn split(tensors: &[TensorRef<'_>], buffer_type: BufferType) -> Vec<BufferContents> {
    let (alignment, max_size) = (buffer_type.alignment(), buffer_type.max_size());
    let mut parts = Vec::new();
    let mut part = BufferContents { first: 0, end: 0, size: 0 };
    for (index, &tensor) in tensors.iter().enumerate() {
        let needed = if needs_memory(tensor) { padded(buffer_type.alloc_size(tensor), alignment) } else { 0 };
        let sum = part.size.saturating_add(needed);
        if part.size > 0 && max_size.is_some_and(|max| sum > max) {
            parts.push(BufferContents { end: index, ..part });
            part = BufferContents { first: index, end: index, size: needed };
        } else {
            part.size = sum;
        }
    }
    if part.size > 0 {
        parts.push(BufferContents { end: tensors.len(), ..part });
    }
    parts
}

fn needs_memory(tensor: TensorRef<'_>) -> bool {
    tensor.data().is_null() && tensor.view_source().is_none()
}

impl BufferContents {
    fn allocate(&self, tensors: &[TensorRef<'_>], buffer_type: BufferType) -> Option<Buffer> {
        let runtime = buffer_type.runtime();
        let Some(buffer) = buffer_type.allocate(self.size) else {
            let name = buffer_type.name();
            runtime.log_error(&format!("{NAME}: failed to allocate {name} buffer of size {}\n", self.size));
            return None;
        };
        match self.fill(tensors, buffer_type, &buffer) {
            Ok(()) => Some(buffer),
            Err(tensor) => {
                runtime.log_error(&failed_to_initialize(tensor));
                None
            }
        }
    }

    /// Places the tensors in `buffer`. Fails with the tensor that the backend could not initialize.
    fn fill<'c>(
        &self,
        tensors: &[TensorRef<'c>],
        buffer_type: BufferType,
        buffer: &Buffer,
    ) -> Result<(), TensorRef<'c>> {
        let runtime = buffer_type.runtime();
        let alignment = buffer_type.alignment();
        let base = buffer.base() as Bytes;
        let mut offset = padded(base, alignment) - base;
        for &tensor in &tensors[self.first..self.end] {
            if needs_memory(tensor) {
                buffer.place(tensor, offset).map_err(|_| tensor)?;
                offset += padded(buffer_type.alloc_size(tensor), alignment);
            } else if tensor.view_source().is_some() && tensor.buffer().is_null() {
                runtime.place_view(tensor).map_err(|_| tensor)?;
            }
        }
        Ok(())
    }
}

/// Joins several buffers in one multi buffer. Returns null for none.
fn join(buffers: Vec<Buffer>, buffer_type: BufferType) -> *mut ggml_backend_buffer {
    let mut pointers: Vec<_> = buffers.into_iter().map(Buffer::into_raw).collect();
    match pointers.as_mut_slice() {
        [] => std::ptr::null_mut(),
        [buffer] => *buffer,
        many => {
            let join = buffer_type.runtime().functions.ggml_backend_multi_buffer_alloc_buffer;
            // SAFETY: that many live buffers, which the multi buffer then owns; the list is copied.
            unsafe { join(many.as_mut_ptr(), many.len()) }
        }
    }
}
