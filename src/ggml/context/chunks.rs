//! The buffers of a context whose tensors are in a buffer type: chunks that are added as tensors are.

use std::ptr::NonNull;

use crate::ggml::bindings::ggml_context;
use crate::ggml::context::allocate::allocate_by_type;
use crate::ggml::live::buffers::{Buffer, BufferType};
use crate::ggml::live::recycled::allocate_new;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::live::tensor_mut::TensorMut;
use crate::ggml::refusal::Refusal;
use crate::placement::{Bytes, padded};

/// A new chunk has extra room for later tensors: this part of the bytes used so far, within the limits below.
const EXTRA_SHARE: Bytes = 16;
const MIN_EXTRA: Bytes = 32 << 10;
const MAX_EXTRA: Bytes = 64 << 20;

/// But the free bytes of all chunks together, also at the ends of full ones, never exceed this multiple of it.
const FREE_PER_EXTRA: Bytes = 2;

/// Later tensors are expected to be as large as the last one, or larger by this part.
const LARGER_SHARE: Bytes = 16;

/// Chunks of one buffer type, filled one tensor after the other.
#[derive(Debug)]
pub struct ContextChunks {
    buffer_type: BufferType,
    usage: u32,
    chunks: Vec<ContextChunk>,
    /// Buffers of a type that places tensors by itself.
    placed_by_type: Vec<Buffer>,
    /// Whether there was ever a chunk. The first has no extra room: it holds the tensors known by then.
    had_chunk: bool,
}

#[derive(Debug)]
struct ContextChunk {
    buffer: Buffer,
    /// The offset of the next tensor, so that its address is aligned.
    next: Bytes,
}

impl ContextChunk {
    fn new(buffer: Buffer, alignment: Bytes) -> Self {
        let mut chunk = Self { buffer, next: 0 };
        chunk.clear(alignment);
        chunk
    }

    fn clear(&mut self, alignment: Bytes) {
        let base = self.buffer.base().addr() as Bytes;
        self.next = padded(base, alignment) - base;
    }

    fn free(&self) -> Bytes {
        self.buffer.size().saturating_sub(self.next)
    }

    /// The offset of `tensor`, if it is in this chunk.
    fn offset_of(&self, tensor: TensorRef<'_>) -> Option<Bytes> {
        let offset = (tensor.data().addr() as Bytes).checked_sub(self.buffer.base().addr() as Bytes)?;
        (tensor.buffer() == self.buffer.as_ptr() && offset <= self.buffer.size()).then_some(offset)
    }

    /// Places `tensor` after the tensors that are in this chunk.
    fn add(&mut self, tensor: TensorRef<'_>, size: Bytes) -> Result<(), Refusal> {
        self.buffer.place_known(tensor, self.next, size).map_err(|_| {
            // SAFETY: no reference into the tensor is held here.
            unsafe { TensorMut::new(tensor) }.clear_memory();
            Refusal::InitFailed { tensor: tensor.name() }
        })?;
        self.next += size;
        Ok(())
    }
}

/// A pending tensor, and the bytes that it takes in a chunk.
#[derive(Clone, Copy)]
struct SizedTensor<'c> {
    tensor: TensorRef<'c>,
    size: Bytes,
}

impl ContextChunks {
    /// Creates an empty list of chunks; they will have `usage`.
    pub fn new(buffer_type: BufferType, usage: u32) -> Self {
        Self { buffer_type, usage, chunks: Vec::new(), placed_by_type: Vec::new(), had_chunk: false }
    }

    /// The buffer type of the chunks.
    pub fn buffer_type(&self) -> BufferType {
        self.buffer_type
    }

    /// Returns `true` if the tensor is in one of the chunks.
    pub fn contain(&self, tensor: TensorRef<'_>) -> bool {
        self.chunks.iter().any(|chunk| chunk.offset_of(tensor).is_some())
    }

    /// Frees what none of `live`, the tensors that the context has, is in.
    pub fn free_unused(&mut self, live: &[TensorRef<'_>]) {
        let (alignment, buffer_type) = (self.buffer_type.alignment(), self.buffer_type);
        for chunk in &mut self.chunks {
            chunk.clear(alignment);
            let ends = live.iter().filter_map(|&tensor| Some(chunk.offset_of(tensor)? + size_of(buffer_type, tensor)));
            match ends.max() {
                Some(end) => chunk.next = end,
                None => chunk.buffer.reset(),
            }
        }
        if live.iter().all(|tensor| !tensor.has_memory()) {
            self.placed_by_type.clear();
        }
    }

    /// Allocates `pending` tensors: in the existing chunks, then in new ones.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`], [`Refusal::TooLarge`] or [`Refusal::InitFailed`]; the tensors before that one in the list keep
    /// their memory.
    ///
    /// # Safety
    /// `context` is live, and `pending` are tensors of it.
    pub unsafe fn allocate(
        &mut self,
        context: NonNull<ggml_context>,
        pending: &[TensorRef<'_>],
    ) -> Result<(), Refusal> {
        if pending.is_empty() {
            return Ok(());
        }
        if self.buffer_type.places_tensors_itself() {
            // SAFETY: a live context and tensors of it, as the caller guarantees.
            return unsafe { self.place_by_type(context, pending) };
        }
        let sized = |&tensor| SizedTensor { tensor, size: size_of(self.buffer_type, tensor) };
        let mut pending: Vec<SizedTensor<'_>> = pending.iter().map(sized).collect();
        if self.are_empty() && !self.have_room_for(&pending) {
            // Chunks from before a reset that are too small are not kept besides the larger ones.
            self.chunks.clear();
        }
        self.fill(&mut pending)?;
        self.add_chunks(&pending)
    }

    /// Lets the buffer type allocate a buffer for exactly these tensors, and place them.
    ///
    /// # Safety
    /// `context` is live, and `pending` are tensors of it.
    unsafe fn place_by_type(
        &mut self,
        context: NonNull<ggml_context>,
        pending: &[TensorRef<'_>],
    ) -> Result<(), Refusal> {
        let size = pending.iter().map(|&tensor| self.buffer_type.alloc_size(tensor)).sum();
        if size == 0 {
            return Ok(());
        }
        // SAFETY: a live context and tensors of it, as the caller guarantees.
        let buffer = unsafe { allocate_by_type(context, pending, self.buffer_type) };
        // SAFETY: a new buffer, or null.
        let buffer = unsafe { Buffer::filled(self.buffer_type.runtime(), buffer.unwrap_or(std::ptr::null_mut())) };
        let Some(buffer) = buffer else {
            // A type that fails halfway leaves addresses in tensors.
            for &tensor in pending {
                // SAFETY: no reference into the tensor is held here.
                unsafe { TensorMut::new(tensor) }.clear_memory();
            }
            return Err(Refusal::NoMemory { buffer: self.buffer_type.name(), size });
        };
        buffer.set_usage(self.usage);
        self.placed_by_type.push(buffer);
        Ok(())
    }

    fn are_empty(&self) -> bool {
        let alignment = self.buffer_type.alignment();
        self.chunks.iter().all(|chunk| chunk.next < alignment)
    }

    /// Returns `true` if all pending tensors fit into the existing chunks.
    fn have_room_for(&self, pending: &[SizedTensor<'_>]) -> bool {
        let mut free: Vec<Bytes> = self.chunks.iter().map(ContextChunk::free).collect();
        pending.iter().all(|it| {
            let found = free.iter_mut().find(|free| **free >= it.size);
            found.map(|free| *free -= it.size).is_some()
        })
    }

    /// Places the pending tensors that fit into existing chunks; the rest stays in `pending`.
    fn fill(&mut self, pending: &mut Vec<SizedTensor<'_>>) -> Result<(), Refusal> {
        let mut left = Vec::new();
        let mut open: Vec<&mut ContextChunk> = self.chunks.iter_mut().filter(|chunk| chunk.free() > 0).collect();
        for &it in pending.iter() {
            match open.iter_mut().find(|chunk| chunk.free() >= it.size) {
                Some(chunk) => chunk.add(it.tensor, it.size)?,
                None => left.push(it),
            }
        }
        *pending = left;
        Ok(())
    }

    /// Adds chunks, none larger than the type allows unless a single tensor is.
    fn add_chunks(&mut self, pending: &[SizedTensor<'_>]) -> Result<(), Refusal> {
        let max_size = self.buffer_type.max_size().unwrap_or(Bytes::MAX);
        let mut rest = pending;
        while !rest.is_empty() {
            let (count, size) = first_chunk(rest, max_size);
            let (now, later) = rest.split_at(count);
            let extra = if later.is_empty() { self.extra(now, size).min(max_size.saturating_sub(size)) } else { 0 };
            let mut chunk = self.new_chunk(size, extra).map_err(|why| match now {
                [large] if size > max_size => self.too_large(large, max_size),
                _ => why,
            })?;
            let done = now.iter().try_for_each(|it| chunk.add(it.tensor, it.size));
            self.chunks.push(chunk);
            done?;
            rest = later;
        }
        self.had_chunk |= !pending.is_empty();
        Ok(())
    }

    fn too_large(&self, large: &SizedTensor<'_>, limit: Bytes) -> Refusal {
        let (tensor, buffer) = (large.tensor.name(), self.buffer_type.name());
        Refusal::TooLarge { tensor, size: large.size, buffer, limit }
    }

    /// The extra bytes of a new chunk for `pending`, which take `size`: room for more such tensors, or, in the first
    /// chunk after a reset, for the same ones when they are a little larger.
    fn extra(&self, pending: &[SizedTensor<'_>], size: Bytes) -> Bytes {
        if !self.had_chunk {
            return 0;
        }
        let used = self.chunks.iter().map(|chunk| chunk.next).sum::<Bytes>().saturating_add(size);
        let free: Bytes = self.chunks.iter().map(ContextChunk::free).sum();
        let extra = (used / EXTRA_SHARE).clamp(MIN_EXTRA, MAX_EXTRA);
        let extra = extra.min((extra * FREE_PER_EXTRA).saturating_sub(free));
        let last = pending.last().map_or(1, |last| last.size);
        let alike = extra / last * last;
        let extra = if self.chunks.is_empty() { extra } else { extra.min(alike + alike / LARGER_SHARE) };
        extra - extra % self.buffer_type.alignment()
    }

    /// Allocates a chunk, without the extra bytes when there is not enough memory for them.
    fn new_chunk(&self, size: Bytes, extra: Bytes) -> Result<ContextChunk, Refusal> {
        let with_extra = size.checked_add(extra).filter(|_| extra > 0).and_then(|sum| self.buffer_type.allocate(sum));
        let buffer = with_extra.or_else(|| allocate_new(self.buffer_type, size));
        let no_memory = || Refusal::NoMemory { buffer: self.buffer_type.name(), size };
        let buffer = buffer.ok_or_else(no_memory)?;
        buffer.set_usage(self.usage);
        let chunk = ContextChunk::new(buffer, self.buffer_type.alignment());
        if chunk.free() >= size { Ok(chunk) } else { Err(no_memory()) }
    }
}

/// Returns how many of `pending` go into the first chunk, and their bytes.
fn first_chunk(pending: &[SizedTensor<'_>], max_size: Bytes) -> (usize, Bytes) {
    let mut sum: Bytes = 0;
    for (count, it) in pending.iter().enumerate() {
        let longer = sum.saturating_add(it.size);
        if count > 0 && longer > max_size {
            return (count, sum);
        }
        sum = longer;
    }
    (pending.len(), sum)
}

/// The bytes of a tensor in a chunk. One without elements takes a byte: ggml considers a tensor without an address
/// unallocated.
fn size_of(buffer_type: BufferType, tensor: TensorRef<'_>) -> Bytes {
    padded(buffer_type.alloc_size(tensor).max(1), buffer_type.alignment())
}
