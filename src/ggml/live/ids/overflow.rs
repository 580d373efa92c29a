//! The tensors whose cell another one occupies.

use crate::ggml::live::tensor::TensorRef;
use crate::graph::TensorId;

/// An empty entry of a table; no graph has that many tensors.
pub const NO_ID: TensorId = TensorId::MAX;

/// A hash table by address, with linear probing.
#[derive(Debug, Default)]
pub struct Overflow {
    /// Ids or [`NO_ID`]. The length is a power of two, at least twice `count`.
    slots: Vec<TensorId>,
    count: usize,
}

impl Overflow {
    /// Returns the number of tensors in the table.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Adds one of `tensors`, which is not in the table.
    pub fn add(&mut self, id: TensorId, tensors: &[TensorRef<'_>]) {
        self.count += 1;
        if 2 * self.count > self.slots.len() {
            let larger = vec![NO_ID; (2 * self.slots.len()).max(16)];
            for known in std::mem::replace(&mut self.slots, larger) {
                if known != NO_ID {
                    self.put(known, tensors);
                }
            }
        }
        self.put(id, tensors);
    }

    fn put(&mut self, id: TensorId, tensors: &[TensorRef<'_>]) {
        let mut slot = self.first_slot(tensors[id as usize].address());
        while self.slots[slot] != NO_ID {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = id;
    }

    /// Returns the id of the tensor at `address`, if it is in the table.
    pub fn id(&self, address: usize, tensors: &[TensorRef<'_>]) -> Option<TensorId> {
        if self.slots.is_empty() {
            return None;
        }
        let mut slot = self.first_slot(address);
        while let id = self.slots[slot]
            && let Some(&tensor) = tensors.get(id as usize)
        {
            if tensor.address() == address {
                return Some(id);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        None
    }

    /// Multiplies by the golden ratio and takes the high bits: the low bits of pointers are all equal.
    fn first_slot(&self, address: usize) -> usize {
        address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - self.slots.len().trailing_zeros())
    }
}
