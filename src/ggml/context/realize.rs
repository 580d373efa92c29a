//! Finds the pending tensors of a context, and allocates them.

use std::ptr::NonNull;

use super::chunks::ContextChunks;
use crate::ggml::bindings::{ggml_context, ggml_tensor};
use crate::ggml::context::allocate::{is_ready_view, tensors, tensors_from};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::refusal::Refusal;

/// The memory of one context's tensors, in a buffer type.
#[derive(Debug)]
pub struct TensorMemory {
    chunks: ContextChunks,
    /// Up to where all tensors have memory: only later ones are searched.
    progress: Option<Progress>,
}

/// All tensors up to `last` have memory. That holds while the first of them that is in a chunk is still there:
/// `ggml_reset` removes all tensors silently, and those created afterwards have no memory.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// The number of tensors before the first that is in a chunk.
    before: usize,
    /// The last tensor that has memory.
    last: NonNull<ggml_tensor>,
}

impl TensorMemory {
    /// Creates the memory of a context without tensors; its buffers will have `usage`.
    pub fn new(buffer_type: BufferType, usage: u32) -> Self {
        Self { chunks: ContextChunks::new(buffer_type, usage), progress: None }
    }

    /// The buffer type.
    pub fn buffer_type(&self) -> BufferType {
        self.chunks.buffer_type()
    }

    /// Allocates all pending tensors of `context`, and places views whose roots have memory.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] or [`Refusal::InitFailed`]; tensors allocated so far keep their memory, and the next call
    /// continues.
    ///
    /// # Safety
    /// The context is live, always the same one, and used by no other thread.
    pub unsafe fn realize(&mut self, context: NonNull<ggml_context>) -> Result<(), Refusal> {
        // SAFETY: a live context that no other thread uses, as the caller guarantees.
        let Some(last) = (unsafe { self.last_allocated(context) }) else {
            // SAFETY: a live context that no other thread uses, as the caller guarantees.
            return unsafe { self.realize_all(context) };
        };
        let functions = &self.buffer_type().runtime().functions;
        // SAFETY: a live context, as the caller guarantees; the tensor is one of the context's.
        let new: Vec<TensorRef<'_>> = unsafe { tensors_from(context, functions, Some(last)) }.skip(1).collect();
        // SAFETY: a live context that no other thread uses, as the caller guarantees; `new` are tensors of it.
        let last = unsafe { self.allocate(context, &new) }?;
        if let (Some(progress), Some(last)) = (&mut self.progress, last) {
            progress.last = last;
        }
        Ok(())
    }

    /// Allocates the pending tensors of a context that is new or was reset.
    ///
    /// # Safety
    /// The context is live, and used by no other thread.
    unsafe fn realize_all(&mut self, context: NonNull<ggml_context>) -> Result<(), Refusal> {
        self.progress = None;
        // SAFETY: a live context of this ggml, as the caller guarantees.
        let all = unsafe { tensors(context, &self.buffer_type().runtime().functions) };
        self.chunks.free_unused(&all);
        // SAFETY: a live context that no other thread uses, as the caller guarantees; `all` are tensors of it.
        let last = unsafe { self.allocate(context, &all) }?;
        let before = all.iter().position(|&tensor| self.chunks.contain(tensor));
        self.progress = before.zip(last).map(|(before, last)| Progress { before, last });
        Ok(())
    }

    /// Allocates the pending ones of `new`. Returns the last tensor up to which all have memory.
    ///
    /// # Safety
    /// The context is live, and used by no other thread; `new` are tensors of it.
    unsafe fn allocate(
        &mut self,
        context: NonNull<ggml_context>,
        new: &[TensorRef<'_>],
    ) -> Result<Option<NonNull<ggml_tensor>>, Refusal> {
        let pending: Vec<TensorRef<'_>> = new.iter().copied().filter(|&tensor| is_pending(tensor)).collect();
        // SAFETY: a live context and tensors of it, as the caller guarantees.
        unsafe { self.chunks.allocate(context, &pending) }?;
        let runtime = self.buffer_type().runtime();
        for &view in new.iter().filter(|&&tensor| is_ready_view(tensor)) {
            runtime.place_view(view).map_err(|_| Refusal::InitFailed { tensor: view.name() })?;
        }
        let allocated = new.iter().take_while(|tensor| tensor.has_memory());
        Ok(allocated.last().and_then(|tensor| NonNull::new(tensor.as_ptr())))
    }

    /// The last tensor known to have memory, if the context was not reset since.
    ///
    /// # Safety
    /// The context is live, and used by no other thread.
    unsafe fn last_allocated<'c>(&self, context: NonNull<ggml_context>) -> Option<TensorRef<'c>> {
        let progress = self.progress?;
        let functions = &self.buffer_type().runtime().functions;
        // SAFETY: a live context, as the caller guarantees.
        let first = unsafe { (functions.ggml_get_first_tensor)(context.as_ptr()) };
        // SAFETY: a tensor of the context, or null.
        let first = unsafe { TensorRef::new(first) };
        // SAFETY: a live context, as the caller guarantees, and a tensor of it.
        let first_held = unsafe { tensors_from(context, functions, first) }.nth(progress.before)?;
        // SAFETY: the context was not reset, as one of its tensors is still there.
        self.chunks.contain(first_held).then(|| unsafe { TensorRef::from_non_null(progress.last) })
    }
}

/// Returns `true` if `tensor` is not a view and has no memory.
pub fn is_pending(tensor: TensorRef<'_>) -> bool {
    tensor.view_source().is_none() && !tensor.has_memory()
}
