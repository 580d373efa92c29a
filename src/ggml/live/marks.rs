//! Notes of lastuse in the flags of live tensors, in bits that no ggml uses. A note is gone with its tensor.

use super::tensor::TensorRef;
use super::tensor_mut::TensorMut;

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
