//! Which tensors of a context wait for memory, and where they get it.

use std::ptr::NonNull;

use super::chunks::Chunks;
use crate::ggml::bindings::{ggml_context, ggml_tensor};
use crate::ggml::context::allocate::{tensors, tensors_from};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::refusal::Refusal;

/// The memory of the tensors of one context, in a buffer type.
#[derive(Debug)]
pub struct TensorMemory {
    chunks: Chunks,
    /// How far the context is known: then only what is new is looked at.
    known: Option<Known>,
}

/// All tensors up to one of them have their memory. That holds while the first of them that lives in a chunk is still
/// at its place: `ggml_reset` takes the tensors away without a word, and those that come after it have no memory.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// How many tensors come before the first that lives in a chunk.
    before: usize,
    /// The last that has its memory.
    last: NonNull<ggml_tensor>,
}

impl TensorMemory {
    /// Memory of this type for a context without tensors; its buffers are marked with `usage`.
    pub fn new(buffer_type: BufferType, usage: u32) -> Self {
        Self { chunks: Chunks::new(buffer_type, usage), known: None }
    }

    /// Where the memory comes from.
    pub fn buffer_type(&self) -> BufferType {
        self.chunks.buffer_type()
    }

    /// Gives memory to all tensors of `context` that have none, and to views whose roots have some.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] or [`Refusal::InitFailed`]; tensors that got their memory keep it, and the next call goes
    /// on.
    ///
    /// # Safety
    /// The context is alive, always the same, and used by no other thread.
    pub unsafe fn realize(&mut self, context: NonNull<ggml_context>) -> Result<(), Refusal> {
        // SAFETY: the caller's promise.
        let Some(last) = (unsafe { self.last_known(context) }) else {
            // SAFETY: the caller's promise.
            return unsafe { self.realize_all(context) };
        };
        let functions = &self.buffer_type().runtime().functions;
        // SAFETY: the caller's promise; the tensor is one of the context's.
        let new: Vec<TensorRef<'_>> = unsafe { tensors_from(context, functions, Some(last)) }.skip(1).collect();
        // SAFETY: the caller's promise.
        let last = unsafe { self.give(context, &new) }?;
        if let (Some(known), Some(last)) = (&mut self.known, last) {
            known.last = last;
        }
        Ok(())
    }

    /// The same for a context of which nothing is known: it is new, or was emptied.
    ///
    /// # Safety
    /// As [`Self::realize`].
    unsafe fn realize_all(&mut self, context: NonNull<ggml_context>) -> Result<(), Refusal> {
        self.known = None;
        // SAFETY: the caller's promise.
        let all = unsafe { tensors(context, &self.buffer_type().runtime().functions) };
        self.chunks.keep_only(&all);
        // SAFETY: the caller's promise.
        let last = unsafe { self.give(context, &all) }?;
        let before = all.iter().position(|&tensor| self.chunks.hold(tensor));
        self.known = before.zip(last).map(|(before, last)| Known { before, last });
        Ok(())
    }

    /// Gives memory to those of `new` that wait for some. Answers the last up to which none waits any more.
    ///
    /// # Safety
    /// As [`Self::realize`]; `new` are tensors of the context.
    unsafe fn give(
        &mut self,
        context: NonNull<ggml_context>,
        new: &[TensorRef<'_>],
    ) -> Result<Option<NonNull<ggml_tensor>>, Refusal> {
        let waiting: Vec<TensorRef<'_>> = new.iter().copied().filter(|&tensor| is_waiting_root(tensor)).collect();
        // SAFETY: the caller's promise.
        unsafe { self.chunks.place(context, &waiting) }?;
        let runtime = self.buffer_type().runtime();
        for &view in new.iter().filter(|&&tensor| is_ready_view(tensor)) {
            runtime.place_view(view).map_err(|_| Refusal::InitFailed { tensor: view.name() })?;
        }
        let served = new.iter().take_while(|tensor| tensor.has_memory());
        Ok(served.last().and_then(|tensor| NonNull::new(tensor.as_ptr())))
    }

    /// The last known tensor, if the context was not emptied since.
    ///
    /// # Safety
    /// As [`Self::realize`].
    unsafe fn last_known<'c>(&self, context: NonNull<ggml_context>) -> Option<TensorRef<'c>> {
        let known = self.known?;
        let functions = &self.buffer_type().runtime().functions;
        // SAFETY: the caller's promise.
        let first = unsafe { (functions.ggml_get_first_tensor)(context.as_ptr()) };
        // SAFETY: a tensor of the context, or null.
        let first = unsafe { TensorRef::new(first) };
        // SAFETY: the caller's promise, and a tensor of the context.
        let first_held = unsafe { tensors_from(context, functions, first) }.nth(known.before)?;
        // SAFETY: the tensors of the context are still those that were there, as one of them is.
        self.chunks.hold(first_held).then(|| unsafe { TensorRef::from_non_null(known.last) })
    }
}

/// Does it wait for memory of its own?
pub fn is_waiting_root(tensor: TensorRef<'_>) -> bool {
    tensor.view_source().is_none() && !tensor.has_memory()
}

/// Is it a view that can get the memory of its root? ggml refuses views of what has an address but no buffer, and they
/// need nothing.
fn is_ready_view(tensor: TensorRef<'_>) -> bool {
    tensor.buffer().is_null()
        && tensor.view_source().is_some_and(|root| !root.buffer().is_null() && !root.data().is_null())
}
