//! Writes to live tensors, and notes of lastuse in their flags, in bits that no ggml uses. A note is gone with its tensor.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::ggml::bindings::{ggml_backend_buffer, ggml_tensor};

use super::tensor::TensorRef;

/// Exclusive access to a tensor. It is created from a [`TensorRef`], which can be copied: that nothing else reads the
/// tensor meanwhile is the promise of [`TensorMut::new`].
#[derive(Debug)]
pub struct TensorMut<'t> {
    tensor: NonNull<ggml_tensor>,
    borrow: PhantomData<&'t mut ggml_tensor>,
}

/// Writes one field of a tensor.
macro_rules! write_field {
    ($tensor:expr, $field:ident $([$index:expr])?, $value:expr) => {{
        let tensor = $tensor.as_ptr();
        // SAFETY: a live tensor without other references into it (see `TensorMut::new`), with the field where the probe
        // found it.
        unsafe { (*tensor).$field $([$index])? = $value };
    }};
}

impl<'t> TensorMut<'t> {
    /// # Safety
    /// As long as the value is used, no reference into the tensor is: none that [`TensorRef::layout`],
    /// [`TensorRef::source_slots`], [`TensorRef::used_slots`], [`TensorRef::sources`] or [`TensorRef::image`] returned,
    /// and no other `TensorMut`.
    pub unsafe fn new(tensor: TensorRef<'t>) -> Self {
        Self { tensor: tensor.as_non_null(), borrow: PhantomData }
    }

    /// Sets the buffer and the address.
    pub fn set_memory(&mut self, buffer: *mut ggml_backend_buffer, data: *mut c_void) {
        write_field!(self.tensor, buffer, buffer);
        write_field!(self.tensor, data, data);
    }

    /// Resets the buffer and the address to null.
    pub fn clear_memory(&mut self) {
        self.set_memory(std::ptr::null_mut(), std::ptr::null_mut());
    }

    /// Sets the operation, by ggml's number.
    pub fn set_operation(&mut self, op: u32) {
        write_field!(self.tensor, op, op);
    }

    /// Sets ggml's flags.
    pub fn set_flags(&mut self, flags: u32) {
        write_field!(self.tensor, flags, flags.cast_signed());
    }

    /// Sets the operation, its parameters and the flags to those of `other`.
    pub fn set_operation_of(&mut self, other: TensorRef<'_>) {
        write_field!(self.tensor, op, other.op());
        write_field!(self.tensor, op_params, other.parameters());
        write_field!(self.tensor, flags, other.flags().cast_signed());
    }

    /// Makes the tensor own memory that it does not have yet.
    pub fn clear_view(&mut self) {
        write_field!(self.tensor, view_src, std::ptr::null_mut());
        write_field!(self.tensor, view_offs, 0);
        self.clear_memory();
    }

    /// Sets the source in a slot.
    pub fn set_source(&mut self, slot: usize, source: TensorRef<'_>) {
        write_field!(self.tensor, src[slot], source.as_ptr());
    }

    /// Clears the source in a slot.
    pub fn clear_source(&mut self, slot: usize) {
        write_field!(self.tensor, src[slot], std::ptr::null_mut());
    }

    /// Makes the tensor a view of `root`, `offset` bytes from its start.
    pub fn set_view(&mut self, root: TensorRef<'_>, offset: usize) {
        write_field!(self.tensor, view_src, root.as_ptr());
        write_field!(self.tensor, view_offs, offset);
    }

    /// Sets one of the parameters of the operation.
    pub fn set_parameter(&mut self, index: usize, value: i32) {
        write_field!(self.tensor, op_params[index], value);
    }

    /// Sets the extents, in elements.
    pub fn set_extents(&mut self, ne: [i64; 4]) {
        write_field!(self.tensor, ne, ne);
    }

    /// Sets the strides, in bytes.
    pub fn set_strides(&mut self, nb: [usize; 4]) {
        write_field!(self.tensor, nb, nb);
    }
}

/// Parts compute the tensor: it is a view of the memory that they write, whatever its operation was.
const MADE_OF_PARTS: u32 = 1 << 28;

/// Parts have taken the place of the tensor: its graph does not list it any more.
const REPLACED_BY_PARTS: u32 = 1 << 29;

/// A tensor that several graphs have, whose parts one of them was to compute.
const STAYS_WHOLE: u32 = 1 << 30;

/// A tensor whose operation, sources or view were changed to compute its graph in tiles.
const CHANGED: u32 = 1 << 27;

impl TensorRef<'_> {
    /// Returns `true` if it is as it was changed for its graph to be cut.
    pub fn is_changed(self) -> bool {
        self.flags() & CHANGED != 0
    }

    /// Returns `true` if parts compute the tensor.
    pub fn is_made_of_tiles(self) -> bool {
        self.flags() & MADE_OF_PARTS != 0
    }

    /// Returns `true` if no graph of the tensor is to be cut any more.
    pub fn stays_whole(self) -> bool {
        self.flags() & STAYS_WHOLE != 0
    }

    /// Returns `true` if the graph of the tensor does not compute it any more, only tiles of it.
    pub fn is_replaced_by_tiles(self) -> bool {
        self.flags() & REPLACED_BY_PARTS != 0
    }
}

/// Notes that parts compute a tensor.
pub fn mark_made_of_tiles(tensor: TensorRef<'_>) {
    set_flags(tensor, tensor.flags() | MADE_OF_PARTS);
}

/// Notes that no node computes a tensor any more.
pub fn mark_replaced_by_tiles(tensor: TensorRef<'_>) {
    set_flags(tensor, tensor.flags() | REPLACED_BY_PARTS);
}

/// Notes that graphs with a tensor are not to be cut any more.
pub fn mark_stays_whole(tensor: TensorRef<'_>) {
    set_flags(tensor, tensor.flags() | STAYS_WHOLE);
}

/// Notes that a tensor was changed for its graph to be cut.
pub fn mark_changed(tensor: TensorRef<'_>) {
    set_flags(tensor, tensor.flags() | CHANGED);
}

/// Removes the notes on parts.
pub fn unmark(tensor: TensorRef<'_>) {
    set_flags(tensor, tensor.flags() & !(MADE_OF_PARTS | REPLACED_BY_PARTS | CHANGED));
}

fn set_flags(tensor: TensorRef<'_>, flags: u32) {
    // SAFETY: the flags were copied, and no reference into the tensor is held here, nor by callers.
    unsafe { TensorMut::new(tensor) }.set_flags(flags);
}
