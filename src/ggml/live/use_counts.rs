//! How often the tensors of a graph are used, as ggml counts while it builds a graph: backends fuse a node with the
//! only one that uses it.

use std::collections::HashMap;
use std::ptr::NonNull;

use crate::ggml::bindings::{ggml_bitset_t, ggml_cgraph};

use super::tensor::TensorRef;

/// No hash set has as many slots, and no pointer is below.
const MOST_SLOTS: usize = 1 << 32;

/// The counts of one graph, by tensor.
#[derive(Debug)]
pub struct UseCounts {
    counts: *mut i32,
    /// The slot of each tensor, by its address.
    slots: HashMap<usize, usize>,
}

impl UseCounts {
    /// Finds the counts of a graph; `None` in versions of ggml before 2025-06-29, which do not count and do not fuse.
    /// There the hash set lies where the counts are now, and begins with its number of slots.
    ///
    /// # Safety
    /// `graph` points to a live graph of a ggml that the probe has confirmed, which no other thread uses.
    pub unsafe fn of(graph: NonNull<ggml_cgraph>) -> Option<Self> {
        let graph = graph.as_ptr();
        // SAFETY: inside a live graph.
        let counts = unsafe { &raw const (*graph).use_counts };
        // SAFETY: inside a live graph.
        let set = unsafe { &raw const (*graph).visited_hash_set };
        // SAFETY: all versions have a pointer or a size there.
        let counts = unsafe { counts.read() };
        // SAFETY: all versions have three words there.
        let set = unsafe { set.read() };
        if counts.addr() < MOST_SLOTS || set.size >= MOST_SLOTS {
            return None;
        }
        let is_used = |slot: usize| {
            let bits = ggml_bitset_t::BITS as usize;
            // SAFETY: the set has a bit for each slot.
            let word = unsafe { set.used.wrapping_add(slot / bits).read() };
            word >> (slot % bits) & 1 != 0
        };
        // SAFETY: a slot of the set.
        let key = |slot: usize| unsafe { set.keys.wrapping_add(slot).read() };
        let slots = (0..set.size).filter(|&slot| is_used(slot)).map(|slot| (key(slot).addr(), slot)).collect();
        Some(Self { counts, slots })
    }

    /// Returns the count of a tensor; 0 if the graph does not have it.
    pub fn of_tensor(&self, tensor: TensorRef<'_>) -> i32 {
        // SAFETY: a slot of the hash set, which has a count each.
        self.slots.get(&tensor.address()).map_or(0, |&slot| unsafe { self.counts.wrapping_add(slot).read() })
    }

    /// Sets the count of a tensor, if the graph has it.
    pub fn set(&mut self, tensor: TensorRef<'_>, count: i32) {
        if let Some(&slot) = self.slots.get(&tensor.address()) {
            // SAFETY: a slot of the hash set, which has a count each; nothing else refers to it.
            unsafe { self.counts.wrapping_add(slot).write(count) };
        }
    }
}
