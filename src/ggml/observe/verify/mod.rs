//! Verification at run time: is the memory that tensors have the right memory, and do operations write only their own?
//!
//! A graph in memory ([`Placed`]) is run in thought by [`crate::graph::simulate_at`]; a [`Guard`] looks at the bytes
//! themselves while the graph runs, and knows from a [`Watch`] which of them are free.

mod compute;
mod guard;
mod mode;
mod placed;
mod shadow;
mod stray;
mod verifier;
mod watch;

pub use compute::{NotComputed, compute_guarded};
pub use guard::{Guard, NextCallback};
pub use mode::Verify;
pub use placed::verify_graph;
pub use verifier::Verifier;

use std::fmt;

/// Memory is not what it should be: what is wrong, for people.
#[derive(Clone, Debug)]
pub struct Violation(String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
