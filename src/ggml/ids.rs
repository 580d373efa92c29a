//! Pointers become dense ids: the one lookup that planning does for every mention of a tensor.

use crate::graph::TensorId;

use super::tensor::TensorRef;

/// Tensors in the order in which they were first met, and where each is.
#[derive(Debug)]
pub struct Ids<'g> {
    tensors: Vec<TensorRef<'g>>,
    /// Open addressing: an id plus one, or 0. At most half of the slots are taken.
    slots: Vec<u32>,
}

impl<'g> Ids<'g> {
    /// Room for `tensors` without growing.
    pub fn with_capacity(tensors: usize) -> Self {
        Self { tensors: Vec::with_capacity(tensors), slots: vec![0; slots_for(tensors)] }
    }

    /// The id of `tensor`; a new one when it was not met before.
    #[inline]
    pub fn id(&mut self, tensor: TensorRef<'g>) -> TensorId {
        match self.find(tensor) {
            Ok(id) => id,
            Err(slot) => self.add(tensor, slot),
        }
    }

    /// The id of `tensor`, if it was met before.
    pub fn known(&self, tensor: TensorRef<'g>) -> Option<TensorId> {
        self.find(tensor).ok()
    }

    /// Was `tensor` met before?
    pub fn contains(&self, tensor: TensorRef<'g>) -> bool {
        self.find(tensor).is_ok()
    }

    /// The id of `tensor`, or the slot that is free for it.
    #[inline]
    fn find(&self, tensor: TensorRef<'g>) -> Result<TensorId, usize> {
        let slot = near_slot(tensor, self.slots.len());
        match self.slots[slot] {
            0 => Err(slot),
            taken if self.tensors[taken as usize - 1] == tensor => Ok(taken - 1),
            _ => self.find_far(tensor),
        }
    }

    fn find_far(&self, tensor: TensorRef<'g>) -> Result<TensorId, usize> {
        let mut slot = far_slot(tensor, self.slots.len());
        loop {
            match self.slots[slot] {
                0 => return Err(slot),
                taken if self.tensors[taken as usize - 1] == tensor => return Ok(taken - 1),
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
        }
    }

    fn add(&mut self, tensor: TensorRef<'g>, slot: usize) -> TensorId {
        self.tensors.push(tensor);
        let taken = u32::try_from(self.tensors.len()).expect("fewer than 2^32 tensors");
        self.slots[slot] = taken;
        if 2 * self.tensors.len() > self.slots.len() {
            self.grow();
        }
        taken - 1
    }

    fn grow(&mut self) {
        let tensors = std::mem::take(&mut self.tensors);
        *self = Self::with_capacity(2 * tensors.len());
        for tensor in tensors {
            self.id(tensor);
        }
    }

    /// The tensor with an id, if there is one.
    pub fn get(&self, id: usize) -> Option<TensorRef<'g>> {
        self.tensors.get(id).copied()
    }

    /// How many tensors were met.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// The tensors by id.
    pub fn into_tensors(self) -> Vec<TensorRef<'g>> {
        self.tensors
    }
}

fn slots_for(tensors: usize) -> usize {
    (2 * tensors + 2).next_power_of_two()
}

/// Where a tensor is looked for first. Tensors of one context lie one after the other, further apart than this divides
/// by: they get slots of their own, and those of neighbours are neighbours.
fn near_slot(tensor: TensorRef<'_>, slots: usize) -> usize {
    (tensor.as_ptr() as usize >> 8) & (slots - 1)
}

/// Where the search goes on when contexts get in each other's way. Multiplies by the golden ratio and takes the high
/// bits: the low bits of pointers are all alike.
fn far_slot(tensor: TensorRef<'_>, slots: usize) -> usize {
    let hash = (tensor.as_ptr() as usize).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash >> (usize::BITS - slots.trailing_zeros())
}
