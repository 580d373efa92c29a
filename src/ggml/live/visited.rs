//! The tensors that ggml has visited while it built a graph: it enters each in a hash set, so that none is listed twice.

use std::collections::HashMap;
use std::ptr::NonNull;

use crate::ggml::bindings::{ggml_bitset_t, ggml_cgraph, ggml_hash_set};

use super::tensor::{GraphRef, TensorRef};

/// No hash set has as many slots, and no pointer is below.
const MOST_SLOTS: usize = 1 << 32;

/// The visited tensors of one graph.
#[derive(Debug)]
pub struct Visited {
    /// The slot of each tensor, by its address.
    slots: HashMap<usize, usize>,
    /// By slot, how often the tensor is used; `None` in versions of ggml before 2025-06-29, which do not count.
    counts: Option<NonNull<i32>>,
}

impl Visited {
    /// Finds the visited tensors of a graph. A view of a graph has the hash set of that graph.
    ///
    /// # Safety
    /// `graph` points to a live graph of a ggml that the probe has confirmed, which no other thread uses.
    pub unsafe fn of(graph: NonNull<ggml_cgraph>) -> Self {
        let graph = graph.as_ptr();
        // SAFETY: inside a live graph.
        let first = unsafe { &raw const (*graph).use_counts };
        // SAFETY: inside a live graph.
        let behind = unsafe { &raw const (*graph).visited_hash_set };
        // SAFETY: all versions have a pointer or a size there.
        let counts = unsafe { first.read() };
        // Where uses are not counted, the hash set begins in the place of the counts, with its number of slots.
        let (set, counts) =
            if counts.addr() < MOST_SLOTS { (first.cast(), None) } else { (behind, NonNull::new(counts)) };
        // SAFETY: all versions have the three words of the set there.
        let ggml_hash_set { size, used, keys } = unsafe { set.read() };
        if size >= MOST_SLOTS {
            return Self { slots: HashMap::new(), counts: None };
        }
        let is_used = |slot: usize| {
            let bits = ggml_bitset_t::BITS as usize;
            // SAFETY: the set has a bit for each slot.
            let word = unsafe { used.wrapping_add(slot / bits).read() };
            word >> (slot % bits) & 1 != 0
        };
        // SAFETY: a slot of the set.
        let key = |slot: usize| unsafe { keys.wrapping_add(slot).read() };
        let slots = (0..size).filter(|&slot| is_used(slot)).map(|slot| (key(slot).addr(), slot)).collect();
        Self { slots, counts }
    }

    /// Returns the first tensor that a node is or reads, and that ggml has not visited: the program has listed nodes
    /// itself, and ggml would list them again, with all that they were computed from, if it added a node that reads them.
    pub fn first_missing<'g>(&self, graph: GraphRef<'g>) -> Option<TensorRef<'g>> {
        let mut read = graph.nodes.iter().flat_map(|&node| node.sources().chain([node]));
        read.find(|tensor| !self.slots.contains_key(&tensor.address()))
    }

    /// Returns where ggml counts the uses of a tensor; `None` if it does not.
    pub fn use_count(&self, tensor: TensorRef<'_>) -> Option<NonNull<i32>> {
        let slot = *self.slots.get(&tensor.address())?;
        // SAFETY: a slot of the hash set, which has a count each.
        self.counts.map(|counts| unsafe { counts.add(slot) })
    }

    /// Returns `true` if ggml counts the uses of tensors.
    pub fn has_use_counts(&self) -> bool {
        self.counts.is_some()
    }
}
