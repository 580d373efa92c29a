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
            match ids.known().find(address(ids.tensors[crowded as usize])) {
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
            let near = near_slot(address(tensor), slots.len());
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
        match self.known().find(address(tensor)) {
            Ok(id) => id,
            Err(slot) => self.add(tensor, slot),
        }
    }

    /// Those that were met by now.
    #[inline]
    pub fn known(&self) -> KnownIds<'_, 'g> {
        KnownIds { tensors: &self.tensors, slots: &self.slots }
    }

    /// Was `tensor` met before?
    pub fn contains(&self, tensor: TensorRef<'g>) -> bool {
        self.known().id(tensor).is_some()
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

/// Tensors that were met, where they are only looked up.
#[derive(Clone, Copy, Debug)]
pub struct KnownIds<'a, 'g> {
    tensors: &'a [TensorRef<'g>],
    slots: &'a [u32],
}

impl<'g> KnownIds<'_, 'g> {
    /// The id of `tensor`, if it was met before. Nobody has met what is none: so slots of sources can be looked up as they are.
    #[inline(always)]
    pub fn id(self, tensor: impl Into<Option<TensorRef<'g>>>) -> Option<TensorId> {
        self.find(tensor.into().map_or(0, address)).ok()
    }

    /// The id of the tensor at `address`, or the slot that is free for it.
    // All of it in one piece: a call, however rare, would keep loops around it from having all registers.
    #[inline(always)]
    fn find(self, address: usize) -> Result<TensorId, usize> {
        let near = near_slot(address, self.slots.len());
        match self.in_slot(near) {
            Some((id, found)) if found == address => Ok(id),
            Some(_) => self.find_far(address),
            None => Err(near),
        }
    }

    #[inline(always)]
    fn find_far(self, address: usize) -> Result<TensorId, usize> {
        let mut slot = far_slot(address, self.slots.len());
        while let Some((id, found)) = self.in_slot(slot) {
            if found == address {
                return Ok(id);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        Err(slot)
    }

    /// Whose slot it is, and where that tensor lies.
    #[inline(always)]
    fn in_slot(self, slot: usize) -> Option<(TensorId, usize)> {
        // A free slot gives the largest number, which is no id.
        let id = self.slots[slot].wrapping_sub(1);
        self.tensors.get(id as usize).map(|&tensor| (id, address(tensor)))
    }
}

fn slots_for(tensors: usize) -> usize {
    (2 * tensors + 2).next_power_of_two()
}

/// Where a tensor is looked for first. Tensors of one context lie one after the other, further apart than this divides
/// by: they get slots of their own, and those of neighbours are neighbours.
#[inline]
fn near_slot(address: usize, slots: usize) -> usize {
    (address >> 8) & (slots - 1)
}

/// Where a tensor lies, which is never at 0.
#[inline]
fn address(tensor: TensorRef<'_>) -> usize {
    tensor.as_ptr().addr()
}

/// Where the search goes on when contexts get in each other's way. Multiplies by the golden ratio and takes the high
/// bits: the low bits of pointers are all alike.
fn far_slot(address: usize, slots: usize) -> usize {
    let hash = address.wrapping_mul(0x9E37_79B9_7F4A_7C15);
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
