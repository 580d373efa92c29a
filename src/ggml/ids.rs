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
    /// Of `tensors`, in their order; one that is there again has the id of the first.
    pub fn of(tensors: Vec<TensorRef<'g>>) -> Self {
        let mut ids = Self { slots: vec![0; slots_for(tensors.capacity())], tensors };
        let mut next = 0;
        while let Some(crowded) = ids.take_near_slots(next) {
            match ids.find(ids.tensors[crowded as usize]) {
                Err(slot) => ids.slots[slot] = crowded + 1,
                Ok(_) => return Self::of_distinct(&ids.tensors),
            }
            next = crowded + 1;
        }
        ids
    }

    /// Gives the tensors from `next` on the slots where they are looked for first, up to one whose slot is taken.
    fn take_near_slots(&mut self, next: TensorId) -> Option<TensorId> {
        let Self { tensors, slots } = self;
        for (id, &tensor) in (next..).zip(&tensors[next as usize..]) {
            let near = near_slot(tensor, slots.len());
            if slots[near] != 0 {
                return Some(id);
            }
            slots[near] = id + 1;
        }
        None
    }

    /// Of `tensors` without those that are there already.
    #[cold]
    fn of_distinct(tensors: &[TensorRef<'g>]) -> Self {
        let mut ids = Self::with_capacity(tensors.len());
        for &tensor in tensors {
            ids.id(tensor);
        }
        ids
    }

    /// Of none yet, with room for `tensors`.
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

    #[cold]
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

    #[cold]
    fn add(&mut self, tensor: TensorRef<'g>, slot: usize) -> TensorId {
        self.tensors.push(tensor);
        let taken = u32::try_from(self.tensors.len()).expect("fewer than 2^32 tensors");
        self.slots[slot] = taken;
        if 2 * self.tensors.len() > self.slots.len() {
            let mut tensors = std::mem::take(&mut self.tensors);
            tensors.reserve(tensors.len());
            *self = Self::of(tensors);
        }
        taken - 1
    }

    /// The tensors that were met, by id.
    pub fn tensors(&self) -> &[TensorRef<'g>] {
        &self.tensors
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
#[inline]
fn near_slot(tensor: TensorRef<'_>, slots: usize) -> usize {
    (tensor.as_ptr() as usize >> 8) & (slots - 1)
}

/// Where the search goes on when contexts get in each other's way. Multiplies by the golden ratio and takes the high
/// bits: the low bits of pointers are all alike.
fn far_slot(tensor: TensorRef<'_>, slots: usize) -> usize {
    let hash = (tensor.as_ptr() as usize).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash >> (usize::BITS - slots.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::mem::MaybeUninit;

    use crate::ggml::ggml_tensor;

    use super::*;

    /// Room for tensors, of which only the addresses are looked at.
    fn room(count: usize) -> Vec<MaybeUninit<ggml_tensor>> {
        (0..count).map(|_| MaybeUninit::zeroed()).collect()
    }

    fn tensor(at: &MaybeUninit<ggml_tensor>) -> TensorRef<'_> {
        // SAFETY: lives as long as the reference, is all zeros, and refers to nobody.
        unsafe { TensorRef::new(at.as_ptr().cast_mut()) }.expect("not null")
    }

    /// Positions that repeat each other now and then, in no order.
    fn scattered(count: usize, among: usize) -> impl Iterator<Item = usize> {
        let next = |seed: &u64| Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        std::iter::successors(Some(1), next).take(count).map(move |seed: u64| (seed >> 33) as usize % among)
    }

    #[test]
    fn ids_are_the_order_of_first_mention() {
        for (count, among) in [(0, 1), (5, 2), (40, 4000), (3000, 1000), (3000, 4000)] {
            let room = room(among);
            let mentioned: Vec<usize> = scattered(count, among).collect();
            let all: Vec<TensorRef<'_>> = mentioned.iter().map(|&at| tensor(&room[at])).collect();
            let mut expected = HashMap::new();
            for &at in &mentioned {
                let next = expected.len();
                expected.entry(at).or_insert(next);
            }
            let known_at_once = Ids::of(all.clone());
            let mut one_by_one = Ids::of(Vec::new());
            for &tensor in &all {
                one_by_one.id(tensor);
            }
            for mut ids in [known_at_once, one_by_one] {
                assert_eq!(ids.tensors().len(), expected.len());
                for (&at, &id) in &expected {
                    assert_eq!((ids.id(tensor(&room[at])) as usize, ids.tensors()[id]), (id, tensor(&room[at])));
                }
                for (at, place) in room.iter().enumerate() {
                    assert_eq!(ids.contains(tensor(place)), expected.contains_key(&at));
                }
            }
        }
    }
}
