//! A pass to a graph that fits a budget: large intermediates are computed in parts. Uses the graph, `access`,
//! `live_ranges`, `plan` and `order`.
//!
//! ```text
//!   given:  a ---> LARGE ---> b            LARGE is live as a whole
//!
//!   new:    memory of b (op NONE)
//!           a[0..2] -> part 1 of 4 -> memory of b[0..2]
//!           a[2..4] -> part 2 of 4 -> memory of b[2..4]     one part of LARGE is live at a time
//!           ...
//!           b: a view of the memory, after all parts
//! ```
//!
//! A region is a set of nodes with one dimension each, along which they are cut: a range of the elements of a result
//! needs only such ranges of those sources that are in the region. Tensors that only nodes of the region use are small
//! then; those that others use too, the outputs of the region, stay whole, and the parts write views of them.
//!
//! ```text
//!  graph -> Draft       (the graph so far, with facts about each tensor: Kind is how it can be cut)
//!        -> Facts       (who uses what, the memory profile)
//!        -> Region      (grown around large tensors at a peak; operations has the needs of a part)
//!             Place     (before and after which other nodes the parts run)
//!             estimate  (the live bytes of a region cut into parts)
//!             cost      (the time that parts add)
//!        -> rewrite     (the draft with regions cut)
//!        -> Search      (again until the memory profile fits)
//!        -> split       (compares plans with the budget)
//! ```
//!
//! All searching is counted in work, never in time: the same graph gives the same result, always.

mod overlapping;
mod slices;
mod operations;
mod views;
mod not_split;
mod detach;
mod draft;
mod facts;
mod region;
mod growth;
mod window;
mod parts;
mod rewrite;
mod cost;
mod estimate;
mod candidates;
mod search;
mod pass;
#[cfg(test)]
mod tests;

pub use detach::detached;
pub use draft::Subject;
pub use draft::{Draft, Origin, PartNumber, Role};
pub use not_split::NotSplit;
pub use operations::{Kind, Window};
pub use pass::{Split, SplitEffort, SplitLimits, Splitting, split};
