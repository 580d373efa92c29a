//! Another order of execution, in which fewer bytes are alive at once.
//!
//! The order of a graph's nodes decides what lives at the same time. Here the nodes are moved so that the lower bound
//! falls, within what [`Hazards`] allow: whoever reads or writes the same memory stays in the given order.
//!
//! ```text
//!  graph -> Hazards (who must stay before whom)
//!        -> Model   (how many bytes are alive once some nodes have run; the order in which they ran is no matter)
//!        -> improve (windows around the peak are searched: once small ones first, once the whole graph first)
//!        -> restore (what did not have to move goes back)
//!        -> live ranges and plans of both orders decide
//! ```
//!
//! All searching is counted in work, never in time: the same graph gives the same order, always.

mod beam;
mod effect;
mod hazards;
mod improve;
mod model;
mod moved;
mod reorder;
mod restore;
mod run;
#[cfg(test)]
mod tests;

pub use effect::Effect;
pub use hazards::Hazards;
pub use reorder::{Effort, Measure, Reordering, reorder};
