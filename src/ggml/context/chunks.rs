//! The buffers of a context whose tensors live in a buffer type: there are more of them as there are more tensors.

use std::ptr::NonNull;

use crate::ggml::bindings::ggml_context;
use crate::ggml::context::allocate::allocate_by_type;
use crate::ggml::live::buffers::{Buffer, BufferType};
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::live::tensor_mut::TensorMut;
use crate::ggml::refusal::Refusal;
use crate::placement::{Bytes, padded};

/// A new chunk has room for tensors still to come: this part of what the tensors take.
const EXTRA_SHARE: Bytes = 16;
const EXTRA_LEAST: Bytes = 32 << 10;
const EXTRA_MOST: Bytes = 64 << 20;

/// But all that is free, also behind tensors that the next did not fit behind, is never more than twice as much.
const FREE_PER_EXTRA: Bytes = 2;

/// The tensors to come are expected to be as large as the last, or larger by this part.
const LARGER_SHARE: Bytes = 16;

/// Buffers of one type, filled one tensor after the other.
#[derive(Debug)]
pub struct Chunks {
    buffer_type: BufferType,
    usage: u32,
    chunks: Vec<Chunk>,
    /// Buffers of a type that places tensors by itself.
    filled: Vec<Buffer>,
    /// Was there ever a chunk? The first is as large as what is known by then.
    have_grown: bool,
}

#[derive(Debug)]
struct Chunk {
    buffer: Buffer,
    /// Where the next tensor goes: bytes from the start of the buffer, so that the address is aligned.
    next: Bytes,
}

impl Chunk {
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

    /// Where `tensor` starts in it, if it lies in it.
    fn offset_of(&self, tensor: TensorRef<'_>) -> Option<Bytes> {
        let offset = (tensor.data().addr() as Bytes).checked_sub(self.buffer.base().addr() as Bytes)?;
        (tensor.buffer() == self.buffer.as_ptr() && offset <= self.buffer.size()).then_some(offset)
    }

    /// Puts `tensor` behind those that are in it.
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

/// A tensor without memory, and what it takes.
#[derive(Clone, Copy)]
struct Piece<'c> {
    tensor: TensorRef<'c>,
    size: Bytes,
}

impl Chunks {
    /// None yet; they will be marked with `usage`.
    pub fn new(buffer_type: BufferType, usage: u32) -> Self {
        Self { buffer_type, usage, chunks: Vec::new(), filled: Vec::new(), have_grown: false }
    }

    /// Where the chunks come from.
    pub fn buffer_type(&self) -> BufferType {
        self.buffer_type
    }

    /// Does the tensor live in one of them?
    pub fn hold(&self, tensor: TensorRef<'_>) -> bool {
        self.chunks.iter().any(|chunk| chunk.offset_of(tensor).is_some())
    }

    /// Takes back what no tensor of `living`, which are all that there are, lives in.
    pub fn keep_only(&mut self, living: &[TensorRef<'_>]) {
        let (alignment, buffer_type) = (self.buffer_type.alignment(), self.buffer_type);
        for chunk in &mut self.chunks {
            chunk.clear(alignment);
            let ends =
                living.iter().filter_map(|&tensor| Some(chunk.offset_of(tensor)? + size_of(buffer_type, tensor)));
            match ends.max() {
                Some(end) => chunk.next = end,
                None => chunk.buffer.reset(),
            }
        }
        if living.iter().all(|tensor| !tensor.has_memory()) {
            self.filled.clear();
        }
    }

    /// Gives memory to `waiting`, roots without memory: in the chunks that there are, and then in new ones.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] or [`Refusal::InitFailed`]; the tensors before that one in the list keep what they got.
    ///
    /// # Safety
    /// `context` is alive, and `waiting` are its tensors.
    pub unsafe fn place(&mut self, context: NonNull<ggml_context>, waiting: &[TensorRef<'_>]) -> Result<(), Refusal> {
        if waiting.is_empty() {
            return Ok(());
        }
        if self.buffer_type.places_by_itself() {
            // SAFETY: the caller's promise.
            return unsafe { self.leave_to_type(context, waiting) };
        }
        let piece = |&tensor| Piece { tensor, size: size_of(self.buffer_type, tensor) };
        let mut pieces: Vec<Piece<'_>> = waiting.iter().map(piece).collect();
        if self.are_empty() && !self.have_room_for(&pieces) {
            // Chunks of an earlier use of the context that are too small are not kept beside the larger ones.
            self.chunks.clear();
        }
        self.fill(&mut pieces)?;
        self.add_chunks(&pieces)
    }

    /// A buffer for exactly these tensors, which the type places by itself.
    ///
    /// # Safety
    /// As [`Self::place`].
    unsafe fn leave_to_type(
        &mut self,
        context: NonNull<ggml_context>,
        waiting: &[TensorRef<'_>],
    ) -> Result<(), Refusal> {
        let size = waiting.iter().map(|&tensor| self.buffer_type.alloc_size(tensor)).sum();
        if size == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let buffer = unsafe { allocate_by_type(context, waiting, self.buffer_type) };
        // SAFETY: a new buffer, or null.
        let buffer = unsafe { Buffer::filled(self.buffer_type.runtime(), buffer.unwrap_or(std::ptr::null_mut())) };
        let Some(buffer) = buffer else {
            // A type that gives up halfway leaves addresses behind.
            for &tensor in waiting {
                // SAFETY: no reference into the tensor is held here.
                unsafe { TensorMut::new(tensor) }.clear_memory();
            }
            return Err(Refusal::NoMemory { buffer: self.buffer_type.name(), size });
        };
        buffer.set_usage(self.usage);
        self.filled.push(buffer);
        Ok(())
    }

    fn are_empty(&self) -> bool {
        let alignment = self.buffer_type.alignment();
        self.chunks.iter().all(|chunk| chunk.next < alignment)
    }

    /// Would all find a place?
    fn have_room_for(&self, pieces: &[Piece<'_>]) -> bool {
        let mut free: Vec<Bytes> = self.chunks.iter().map(Chunk::free).collect();
        pieces.iter().all(|piece| {
            let found = free.iter_mut().find(|free| **free >= piece.size);
            found.map(|free| *free -= piece.size).is_some()
        })
    }

    /// Puts into the chunks what finds room there; the rest stays in `pieces`.
    fn fill(&mut self, pieces: &mut Vec<Piece<'_>>) -> Result<(), Refusal> {
        let mut left = Vec::new();
        let mut open: Vec<&mut Chunk> = self.chunks.iter_mut().filter(|chunk| chunk.free() > 0).collect();
        for &piece in pieces.iter() {
            match open.iter_mut().find(|chunk| chunk.free() >= piece.size) {
                Some(chunk) => chunk.add(piece.tensor, piece.size)?,
                None => left.push(piece),
            }
        }
        *pieces = left;
        Ok(())
    }

    /// New chunks, none larger than the type allows unless a single tensor is.
    fn add_chunks(&mut self, pieces: &[Piece<'_>]) -> Result<(), Refusal> {
        let max_size = self.buffer_type.max_size().unwrap_or(Bytes::MAX);
        let mut rest = pieces;
        while !rest.is_empty() {
            let (count, size) = first_chunk(rest, max_size);
            let (now, later) = rest.split_at(count);
            let extra = if later.is_empty() { self.extra(now, size).min(max_size.saturating_sub(size)) } else { 0 };
            let mut chunk = self.allocate(size, extra)?;
            let done = now.iter().try_for_each(|piece| chunk.add(piece.tensor, piece.size));
            self.chunks.push(chunk);
            done?;
            rest = later;
        }
        self.have_grown |= !pieces.is_empty();
        Ok(())
    }

    /// Bytes that a new chunk for `pieces`, which take `size`, gets beyond: for more such tensors, or, in the first
    /// chunk of a context that was emptied, for the same ones when they are a little larger the next time.
    fn extra(&self, pieces: &[Piece<'_>], size: Bytes) -> Bytes {
        if !self.have_grown {
            return 0;
        }
        let used = self.chunks.iter().map(|chunk| chunk.next).sum::<Bytes>().saturating_add(size);
        let free: Bytes = self.chunks.iter().map(Chunk::free).sum();
        let extra = (used / EXTRA_SHARE).clamp(EXTRA_LEAST, EXTRA_MOST);
        let extra = extra.min((extra * FREE_PER_EXTRA).saturating_sub(free));
        let last = pieces.last().map_or(1, |last| last.size);
        let alike = extra / last * last;
        let extra = if self.chunks.is_empty() { extra } else { extra.min(alike + alike / LARGER_SHARE) };
        extra - extra % self.buffer_type.alignment()
    }

    /// A new chunk; without the extra bytes when there is not enough memory for them.
    fn allocate(&self, size: Bytes, extra: Bytes) -> Result<Chunk, Refusal> {
        let with_extra = size.checked_add(extra).filter(|_| extra > 0).and_then(|sum| self.buffer_type.allocate(sum));
        let buffer = with_extra.or_else(|| self.buffer_type.allocate(size));
        let no_memory = || Refusal::NoMemory { buffer: self.buffer_type.name(), size };
        let buffer = buffer.ok_or_else(no_memory)?;
        buffer.set_usage(self.usage);
        let chunk = Chunk::new(buffer, self.buffer_type.alignment());
        if chunk.free() >= size { Ok(chunk) } else { Err(no_memory()) }
    }
}

/// How many of `pieces` go into the first chunk, and what they take.
fn first_chunk(pieces: &[Piece<'_>], max_size: Bytes) -> (usize, Bytes) {
    let mut sum: Bytes = 0;
    for (count, piece) in pieces.iter().enumerate() {
        let longer = sum.saturating_add(piece.size);
        if count > 0 && longer > max_size {
            return (count, sum);
        }
        sum = longer;
    }
    (pieces.len(), sum)
}

/// What a tensor takes in a chunk. One without elements gets an address too: ggml takes a tensor without one for one
/// that waits for memory.
fn size_of(buffer_type: BufferType, tensor: TensorRef<'_>) -> Bytes {
    padded(buffer_type.alloc_size(tensor).max(1), buffer_type.alignment())
}
