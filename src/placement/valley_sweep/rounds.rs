//! The best of several sweeps, for problems that are too large for anything but sweeps.

use crate::placement::{Bytes, Placement, Problem, Strategy};

use super::rank::order_by;
use super::{Sweeper, ValleySweep};

/// The smallest placement of several sweeps, when it is below `limit` bytes, and the name of its order. As many sweeps
/// as `most_sweeps` at most, and none after one that meets `lower_bound`: first every order, then the best one again
/// and again, each time with those blocks first that reached too high.
pub fn best_sweep(
    problem: &Problem,
    lower_bound: Bytes,
    limit: Bytes,
    most_sweeps: usize,
) -> Option<(Placement, &'static str)> {
    let sweeper = Sweeper::new(problem);
    let mut best: Option<(Placement, ValleySweep)> = None;
    for order in ValleySweep::ALL.into_iter().take(most_sweeps) {
        let limit = best.as_ref().map_or(limit, |(placement, _)| placement.size());
        if limit <= lower_bound {
            break;
        }
        if let Some(placement) = sweeper.place_below(limit, &sweeper.ranks(order)) {
            best = Some((placement, order));
        }
    }
    let (placement, order) = best?;
    let rounds = most_sweeps.saturating_sub(ValleySweep::ALL.len());
    Some((again(&sweeper, lower_bound, placement, order, rounds), order.name()))
}

/// The smallest placement of `rounds` more sweeps in one order, if that is below what there is.
fn again(
    sweeper: &Sweeper<'_>,
    lower_bound: Bytes,
    placement: Placement,
    order: ValleySweep,
    rounds: usize,
) -> Placement {
    let order = sweeper.ranks(order);
    let mut too_high = vec![0.0; order.len()];
    let mut best = placement.clone();
    let mut last = placement;
    for _ in 0..rounds {
        if best.size() <= lower_bound {
            break;
        }
        count_too_high(sweeper.problem, &last, lower_bound.midpoint(best.size()), &mut too_high);
        let mut ranks = order.clone();
        order_by(too_high.iter().copied(), &mut ranks);
        let Some(placement) = sweeper.place_below(Bytes::MAX, &ranks) else { break };
        if placement.size() < best.size() {
            best = placement.clone();
        }
        last = placement;
    }
    best
}

/// Counts for each block whether it reaches beyond `height`.
fn count_too_high(problem: &Problem, placement: &Placement, height: Bytes, too_high: &mut [f32]) {
    for ((block, location), count) in problem.blocks().iter().zip(&placement.locations).zip(too_high) {
        if location.offset + block.size > height {
            *count += 1.0;
        }
    }
}
