//! Verification at run time: whether the addresses of tensors are right, and operations write only their own results.
//!
//! A graph with its addresses (`placed_graph`) is simulated by [`crate::graph::simulate_at`]; the [`Verifier`] of an
//! allocator does that for each graph. A [`MemoryGuard`] compares the bytes of buffers with copies (`buffer_copy`)
//! while the graph runs, and knows from a `watched_graph` which of them are free; it reports a `stray_write`,
//! and `stale_inputs` when the graph runs again. `places` are where tensors were put, so that memory that was freed is not
//! used.

mod places;
mod placed_graph;
mod buffer_copy;
mod stray_write;
mod watched_graph;
mod verifier;
mod stale_inputs;
mod memory_guard;
mod compute;

pub use compute::{NotComputed, compute_guarded};
pub use memory_guard::{MemoryGuard, NextCallback};
pub use placed_graph::verify_graph;
pub use places::{
    check_not_freed, check_place, check_places, forget_places, note_buffer_allocated, note_buffer_freed,
    places_are_recorded, record_places,
};
pub use verifier::Verifier;

use std::fmt;

/// A defect found in the memory of a graph, as a message.
#[derive(Clone, Debug)]
pub struct Violation(String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
