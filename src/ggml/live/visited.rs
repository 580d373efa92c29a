//! The tensors that ggml has visited while it built a graph: it enters each in a hash set, so that none is listed twice.
//! It counts there how often each is used: backends fuse a node with the only one that uses it.

use std::collections::HashMap;
use std::ptr::NonNull;

use crate::ggml::bindings::{ggml_bitset_t, ggml_cgraph, ggml_hash_set};

use super::probe::GraphLayout;
use super::runtime::Runtime;
use super::tensor::{GraphRef, TensorRef};

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
    /// `graph` points to a live graph of this ggml, which no other thread uses.
    pub unsafe fn of(runtime: &Runtime, graph: NonNull<ggml_cgraph>) -> Self {
        let GraphLayout { visited_hash_set, use_counts } = runtime.graph_layout;
        let field = |offset: usize| graph.as_ptr().wrapping_byte_add(offset);
        let counts = use_counts.and_then(|offset| {
            // SAFETY: inside a live graph, where the probe has found the pointer.
            NonNull::new(unsafe { field(offset).cast::<*mut i32>().read() })
        });
        // SAFETY: inside a live graph, where the probe has found the set.
        let ggml_hash_set { size, used, keys } = unsafe { field(visited_hash_set).cast::<ggml_hash_set>().read() };
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

/// The counts of one graph, by tensor.
#[derive(Debug)]
pub struct UseCounts(Visited);

impl UseCounts {
    /// Finds the counts of a graph; `None` in versions of ggml before 2025-06-29, which do not count and do not fuse.
    ///
    /// # Safety
    /// See [`Visited::of`].
    pub unsafe fn of(runtime: &Runtime, graph: NonNull<ggml_cgraph>) -> Option<Self> {
        // SAFETY: live, of this ggml, and used by no other thread, as the caller guarantees.
        let visited = unsafe { Visited::of(runtime, graph) };
        visited.has_use_counts().then_some(Self(visited))
    }

    /// Returns the count of a tensor; 0 if the graph does not have it.
    pub fn of_tensor(&self, tensor: TensorRef<'_>) -> i32 {
        // SAFETY: a count of a live graph.
        self.0.use_count(tensor).map_or(0, |count| unsafe { count.read() })
    }

    /// Sets the count of a tensor, if the graph has it.
    pub fn set(&mut self, tensor: TensorRef<'_>, count: i32) {
        if let Some(place) = self.0.use_count(tensor) {
            // SAFETY: a count of a live graph; nothing else refers to it.
            unsafe { place.write(count) };
        }
    }
}
