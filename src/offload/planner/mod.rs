//! Which weights and caches are on which device, so that no device exceeds its budget.
//!
//! The compute buffer of a device depends on what is placed there, so it is measured for each offload that is tried,
//! by a function of the caller. Only measured offload plans are returned.
//!
//! ```text
//!  Request -> check         (refuses invalid requests)
//!          -> fill          (an offload plan that fits, if the compute buffers had the assumed sizes)
//!          -> search        (measures it, and corrects the assumed sizes)
//!          -> improve       (adds what still fits; tries all offload plans of a few items)
//!          -> OffloadPlan (measured), or Infeasible (with the smallest budgets that would do)
//! ```

mod request;
mod check;
mod fill;
mod search;
mod improve;
#[cfg(test)]
mod tests;

pub use check::Invalid;
pub use request::{Assignment, Order, Place, Request, Spread, Usage};
pub use search::{Measure, NotPlaced, OffloadPlan, Shortage};

use crate::placement::Bytes;
use check::check;
use improve::improve;
use search::{Search, computes};

/// Searches for the offload plan that gains most and is within all budgets: for each device, the buffers of its weights and
/// caches, its compute buffer as measured for this offload, and its reserve together do not exceed its budget.
///
/// # Errors
/// [`NotPlaced`].
pub fn place(request: &Request<'_>, measure: &mut dyn Measure) -> Result<OffloadPlan, NotPlaced> {
    check(request)?;
    let mut search = Search::new(request, measure);
    let given = search.measured(&Assignment::on_host(request))?;
    let assumed: Vec<Bytes> = given.map_or(vec![0; request.devices.len()], |usage| computes(&usage));
    search.correct(&assumed, false)?;
    if search.best.is_none() {
        // The host is short, so that devices have to take more.
        search.correct(&assumed, true)?;
    }
    improve(&mut search)?;
    search.end()
}
