//! The chunks of memory that an allocator holds.

use crate::ggml::bindings::ggml_backend_buffer;
use crate::ggml::live::buffers::{Buffer, BufferType};
use crate::ggml::live::surplus::note_freed;
use crate::ggml::observe::verify::note_buffer_freed;
use crate::ggml::refusal::Refusal;
use crate::graph::{Address, BufferPlan};
use crate::placement::Bytes;

/// The chunks of each buffer.
#[derive(Debug)]
pub struct Chunks {
    /// The chunks of each buffer, `None` until they are allocated.
    of_buffers: Vec<Option<Vec<Buffer>>>,
}

impl Chunks {
    /// Holds nothing for any of `count` buffers.
    pub fn none(count: usize) -> Self {
        Self { of_buffers: (0..count).map(|_| None).collect() }
    }

    /// Bytes held for a buffer.
    pub fn size(&self, buffer: usize) -> Bytes {
        self.of_buffers[buffer].iter().flatten().map(Buffer::size).sum()
    }

    /// Bytes held for all buffers.
    pub fn total(&self) -> Bytes {
        self.all().map(Buffer::size).sum()
    }

    /// Returns `true` if `buffer` is one of the chunks.
    pub fn contains(&self, buffer: *mut ggml_backend_buffer) -> bool {
        self.all().any(|own| own.as_ptr() == buffer)
    }

    /// Resets all chunks, as backends require before tensors are initialized anew.
    pub fn reset(&self) {
        self.all().for_each(Buffer::reset);
    }

    /// Returns the chunk of a buffer that has one.
    pub fn only(&self, buffer: usize) -> Option<&Buffer> {
        match self.of_buffers[buffer].as_deref() {
            Some([chunk]) => Some(chunk),
            _ => None,
        }
    }

    /// The chunk that `address` lies in.
    ///
    /// # Panics
    /// If the chunks of the plan that `address` belongs to are not allocated.
    pub fn at(&self, address: Address) -> &Buffer {
        let chunks =
            self.of_buffers[address.buffer as usize].as_ref().expect("the chunks of a plan are allocated first");
        &chunks[address.chunk as usize]
    }

    /// Returns `true` if the chunks held are large enough for a plan.
    pub fn suffice(&self, plans: &[BufferPlan]) -> bool {
        plans.iter().enumerate().all(|(buffer, plan)| self.suffice_for(buffer, &plan.placement.chunks))
    }

    /// Returns `true` if the chunks of a buffer have at least these sizes. A chunk of 0 bytes must exist too: tensors
    /// without bytes take their address from it.
    pub fn suffice_for(&self, buffer: usize, sizes: &[Bytes]) -> bool {
        self.of_buffers[buffer].as_ref().is_some_and(|chunks| {
            sizes.len() <= chunks.len() && sizes.iter().zip(chunks).all(|(&size, chunk)| size <= chunk.size())
        })
    }

    /// Replaces the chunks of a buffer, by those of a `step` of growth if there is memory. The old ones are freed first, so
    /// that both never exist at once.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`]; the buffer then has no chunks, or the old sizes if they grow in steps.
    pub fn replace(
        &mut self,
        buffer: usize,
        buffer_type: BufferType,
        sizes: &[Bytes],
        step: Option<&[Bytes]>,
    ) -> Result<(), Refusal> {
        let held = self.sizes(buffer);
        self.free(buffer);
        let allocate = |sizes: &[Bytes]| -> Option<Vec<Buffer>> {
            sizes.iter().map(|&size| buffer_type.allocate(size).inspect(Buffer::use_for_compute)).collect()
        };
        let larger = step.filter(|&step| step != sizes);
        if let Some(chunks) = larger.and_then(allocate).or_else(|| allocate(sizes)) {
            self.of_buffers[buffer] = Some(chunks);
            return Ok(());
        }
        self.of_buffers[buffer] = step.filter(|_| !held.is_empty()).and_then(|_| allocate(&held));
        Err(Refusal::NoMemory { buffer: buffer_type.name(), size: sizes.iter().sum() })
    }

    /// The sizes of the chunks of a buffer.
    pub fn sizes(&self, buffer: usize) -> Vec<Bytes> {
        self.of_buffers[buffer].iter().flatten().map(Buffer::size).collect()
    }

    /// Frees the chunks of a buffer.
    pub fn free(&mut self, buffer: usize) {
        for chunk in self.of_buffers[buffer].take().into_iter().flatten() {
            note_buffer_freed(chunk.as_ptr().addr());
            note_freed(&chunk);
        }
    }

    fn all(&self) -> impl Iterator<Item = &Buffer> {
        self.of_buffers.iter().flatten().flatten()
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        (0..self.of_buffers.len()).for_each(|buffer| self.free(buffer));
    }
}
