//! Copies that need not be made: who computes what is copied can write where the copy would go.
//!
//! ```text
//!  before   | product |--copy--> | part of a cache |       after   | product, in part of a cache |
//! ```
//!
//! The nodes are looked at from the last to the first. So a result that is copied twice on its way, into a CONCAT and with that
//! into a cache, goes where the last copy wants it.
//!
//! - `producer`: who computes what is copied, for nobody else
//! - `moves`: where it would write; by `strides` each element lies where the copy would have put it
//! - `checks`: whether it can, and nobody uses that memory in between, which `touches` tells
//! - `find`: which copies can go, and what changes in the graph then

mod checks;
mod facts;
mod find;
mod found;
mod moves;
mod producer;
mod state;
mod strides;

#[cfg(test)]
mod tests;
mod touches;

pub use facts::{Facts, Kind, Memory, Target};
pub use find::{Freedom, find};
pub use found::{Becomes, Change, Found, Reason};
