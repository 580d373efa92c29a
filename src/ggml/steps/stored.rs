//! Memory of tensors that cross cuts, and of kept tensors.

use std::ops::Range;

use crate::placement::{Bytes, padded};

use crate::ggml::live::buffers::{Buffer, BufferType};
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::live::tensor_mut::TensorMut;

use super::error::StepsError;
use super::layout::OwnerTensors;

/// Tensors that have memory in the same parts, in their own buffers.
#[derive(Debug)]
pub struct StoredTensors<'g> {
    /// The parts while which they have memory.
    pub parts: Range<usize>,
    buffer_type: BufferType,
    owners: Vec<StoredOwner<'g>>,
    /// Bytes of each buffer: several if one would be larger than the type allows.
    sizes: Vec<Bytes>,
    /// Empty unless they have memory.
    buffers: Vec<Buffer>,
}

#[derive(Debug)]
struct StoredOwner<'g> {
    tensors: OwnerTensors<'g>,
    buffer: usize,
    offset: Bytes,
    alloc_size: Bytes,
}

impl<'g> StoredTensors<'g> {
    /// Places `owners` one after the other. They have no memory yet.
    pub fn new(buffer_type: BufferType, parts: Range<usize>, owners: Vec<OwnerTensors<'g>>) -> Self {
        let (alignment, most) = (buffer_type.alignment(), buffer_type.max_size().unwrap_or(Bytes::MAX));
        let mut sizes: Vec<Bytes> = vec![0];
        let place = |tensors: OwnerTensors<'g>| {
            let alloc_size = buffer_type.alloc_size(tensors.root);
            let size = padded(alloc_size, alignment);
            let last = sizes.len() - 1;
            if sizes[last] > 0 && size > most.saturating_sub(sizes[last]) {
                sizes.push(0);
            }
            let buffer = sizes.len() - 1;
            let offset = sizes[buffer];
            sizes[buffer] = offset.saturating_add(size);
            StoredOwner { tensors, buffer, offset, alloc_size }
        };
        let owners = owners.into_iter().map(place).collect();
        Self { parts, buffer_type, owners, sizes, buffers: Vec::new() }
    }

    /// Returns the bytes of the buffers.
    pub fn size(&self) -> Bytes {
        self.sizes.iter().fold(0, |sum: Bytes, &size| sum.saturating_add(size))
    }

    /// Allocates the buffers and places the tensors in them.
    ///
    /// # Errors
    /// [`StepsError::NoMemory`] or [`StepsError::InitFailed`]; the tensors then have no memory.
    pub fn hold(&mut self) -> Result<(), StepsError> {
        let done = self.try_hold();
        if done.is_err() {
            self.release();
        }
        done
    }

    fn try_hold(&mut self) -> Result<(), StepsError> {
        let Self { buffer_type, owners, sizes, buffers, .. } = self;
        for &size in &*sizes {
            let no_memory = || StepsError::NoMemory { buffer: buffer_type.name(), size };
            buffers.push(buffer_type.allocate(size).ok_or_else(no_memory)?);
        }
        for StoredOwner { tensors, buffer, offset, alloc_size } in owners {
            let placed = buffers[*buffer].place_known(tensors.root, *offset, *alloc_size);
            placed.map_err(|_| StepsError::InitFailed { tensor: tensors.root.name() })?;
            place_views(*buffer_type, tensors)?;
        }
        Ok(())
    }

    /// Frees the buffers; the tensors have no memory afterwards.
    pub fn release(&mut self) {
        self.owners.iter().for_each(|owner| clear(&owner.tensors));
        self.buffers.clear();
    }
}

impl Drop for StoredTensors<'_> {
    fn drop(&mut self) {
        if !self.buffers.is_empty() {
            self.release();
        }
    }
}

/// Places the views of an owner that has memory.
///
/// # Errors
/// [`StepsError::InitFailed`].
pub fn place_views(buffer_type: BufferType, tensors: &OwnerTensors<'_>) -> Result<(), StepsError> {
    tensors.views.iter().try_for_each(|&view| {
        // A redirected result has an address already where its root had one.
        clear_tensor(view);
        buffer_type.runtime().place_view(view).map_err(|_| StepsError::InitFailed { tensor: view.name() })
    })
}

/// Takes the memory of an owner and its views away.
pub fn clear(tensors: &OwnerTensors<'_>) {
    clear_tensor(tensors.root);
    tensors.views.iter().for_each(|&view| clear_tensor(view));
}

fn clear_tensor(tensor: TensorRef<'_>) {
    // SAFETY: no reference into the tensor is held here, nor by callers, which pass it on from a list.
    unsafe { TensorMut::new(tensor) }.clear_memory();
}
