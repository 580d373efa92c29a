//! The lower bound: the bytes alive at the step that has the most.

use super::timeline::Timeline;
use super::{Bytes, Problem};

/// The largest number of bytes alive at one step. No placement of these lifetimes is smaller.
pub fn lower_bound(problem: &Problem) -> Bytes {
    Timeline::of(problem).largest_load
}
