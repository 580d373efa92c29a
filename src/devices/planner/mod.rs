//! Which weights and caches are on which device, so that no device exceeds its budget.
//!
//! The compute buffer of a device depends on what is placed there, so it is measured for each placement that is tried,
//! by a function of the caller. Only measured placements are returned.
//!
//! ```text
//!  Request -> check         (refuses what cannot be meant)
//!          -> fill          (a placement that fits, if the compute buffers had the assumed sizes)
//!          -> search        (measures it, and corrects the assumed sizes)
//!          -> improve       (adds what still fits; tries all placements of a few items)
//!          -> Placement     (measured), or Infeasible (with the smallest budgets that would do)
//! ```

mod request;
mod assignment;
mod usage;
mod check;
mod fill;
mod search;
mod improve;
mod longest;
#[cfg(test)]
mod tests;

pub use assignment::{Assignment, Place};
pub use check::Invalid;
pub use longest::{LongestSearch, longest};
pub use request::{Order, Request, Spread};
pub use search::{DevicePlacement, Measure, NotPlaced, Shortage, place};
pub use usage::Usage;
