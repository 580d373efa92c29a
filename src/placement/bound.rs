//! The lower bound: the bytes alive at the step that has the most.

use super::moments::Moments;
use super::{Bytes, Problem};

/// The largest number of bytes alive at one step. No placement of these lifetimes is smaller.
pub fn lower_bound(problem: &Problem) -> Bytes {
    let largest = Moments::of(problem).loads(problem).into_iter().max().unwrap_or(0);
    Bytes::try_from(largest).unwrap_or(Bytes::MAX)
}
