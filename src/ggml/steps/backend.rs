//! Runs parts on one backend, each in its own compute buffer.

use std::collections::HashMap;
use std::ptr::NonNull;

use crate::placement::Bytes;

use crate::ggml::STATUS_SUCCESS;
use crate::ggml::bindings::ggml_backend;
use crate::ggml::live::buffers::{Buffer, BufferType};
use crate::ggml::live::tensor::TensorRef;

use super::error::StepsError;
use super::part::LivePart;
use super::stored::place_views;

/// Runs parts on one backend. The compute buffer of a part exists while it runs.
#[derive(Debug)]
pub struct BackendRunner {
    backend: NonNull<ggml_backend>,
    buffer_type: BufferType,
    chunks: Vec<Buffer>,
}

impl BackendRunner {
    /// Creates it for `backend`, with compute buffers of `buffer_type`.
    pub fn new(backend: NonNull<ggml_backend>, buffer_type: BufferType) -> Self {
        Self { backend, buffer_type, chunks: Vec::new() }
    }

    /// Allocates the compute buffer of `part`, places its tensors, and computes it. `tensors` are those of the graph.
    /// [`BackendRunner::end`] follows in any case.
    ///
    /// # Errors
    /// [`StepsError`].
    pub fn run(&mut self, step: usize, part: &mut LivePart<'_>, tensors: &[TensorRef<'_>]) -> Result<(), StepsError> {
        self.allocate(&part.plan.chunks[0])?;
        self.place(part, tensors)?;
        let compute = self.buffer_type.runtime().functions.ggml_backend_graph_compute;
        let compute = compute.ok_or(StepsError::Unsupported)?;
        // SAFETY: a live backend, and a part of a live graph whose tensors have memory.
        let status = unsafe { compute(self.backend.as_ptr(), part.as_ptr()) };
        if status == STATUS_SUCCESS { Ok(()) } else { Err(StepsError::Status { step, status }) }
    }

    /// Frees the compute buffer.
    pub fn end(&mut self, part: &LivePart<'_>) {
        part.clear();
        self.chunks.clear();
    }

    fn allocate(&mut self, sizes: &[Bytes]) -> Result<(), StepsError> {
        let buffer_type = self.buffer_type;
        for &size in sizes {
            let no_memory = || StepsError::NoMemory { buffer: buffer_type.name(), size };
            self.chunks.push(buffer_type.allocate(size).inspect(Buffer::use_for_compute).ok_or_else(no_memory)?);
        }
        Ok(())
    }

    fn place(&self, part: &LivePart<'_>, tensors: &[TensorRef<'_>]) -> Result<(), StepsError> {
        let placed: HashMap<TensorRef<'_>, _> =
            part.plan.placed.iter().map(|placed| (tensors[placed.tensor as usize], placed)).collect();
        for owner in &part.inside {
            let Some(found) = placed.get(&owner.root) else { continue };
            let chunk = &self.chunks[found.address.chunk as usize];
            let done = chunk.place_known(owner.root, found.address.offset, found.alloc_size);
            done.map_err(|_| StepsError::InitFailed { tensor: owner.root.name() })?;
            place_views(self.buffer_type, owner)?;
        }
        Ok(())
    }
}
