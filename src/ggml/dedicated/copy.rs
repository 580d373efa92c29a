//! Nodes that copy a tensor, each in its own context.

use std::ptr::{NonNull, null_mut};

use crate::ggml::bindings::{ggml_context, ggml_init_params};
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;

/// Bytes for the header of the one object in a context, and for its alignment.
const MARGIN: usize = 256;

/// A node that copies a tensor, with the context that holds it. Freed when dropped.
#[derive(Debug)]
pub struct CopyNode {
    runtime: &'static Runtime,
    context: NonNull<ggml_context>,
}

// SAFETY: a context can move between threads; one thread at a time uses it, which is the one that uses its owner.
unsafe impl Send for CopyNode {}

impl CopyNode {
    /// Creates a contiguous copy of `tensor`, without memory. `None` if there is no memory for the context.
    pub fn new<'g>(runtime: &'static Runtime, tensor: TensorRef<'g>) -> Option<(Self, TensorRef<'g>)> {
        let functions = &runtime.functions;
        // SAFETY: takes nothing.
        let overhead = unsafe { (functions.ggml_tensor_overhead)() };
        let params = ggml_init_params { mem_size: overhead + MARGIN, mem_buffer: null_mut(), no_alloc: true };
        // SAFETY: ggml allocates the memory of the context itself.
        let context = NonNull::new(unsafe { (functions.ggml_init)(params) })?;
        let owner = Self { runtime, context };
        // SAFETY: a live context with room for a tensor, and a live tensor.
        let copy = unsafe { (functions.ggml_cont)(context.as_ptr(), tensor.as_ptr()) };
        // SAFETY: null, or a tensor that lives as long as the context; the owner returns it with that promise.
        let copy = unsafe { TensorRef::new(copy) }?;
        Some((owner, copy))
    }
}

impl Drop for CopyNode {
    fn drop(&mut self) {
        // SAFETY: the context is ours, and its tensor is no longer used.
        unsafe { (self.runtime.functions.ggml_free)(self.context.as_ptr()) };
    }
}
