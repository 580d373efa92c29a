//! The best of several sweeps.

use crate::placement::{Bytes, Placement, Problem};

use super::{Sweeper, ValleySweep, order_by};

/// Returns the smallest placement of at most `most_sweeps` sweeps, if it is below `limit` bytes, and its order. Stops
/// at the lower bound. First tries all orders, then repeats the best one, each time with the blocks first that were
/// placed too high before.
pub fn best_sweep(
    problem: &Problem,
    lower_bound: Bytes,
    limit: Bytes,
    most_sweeps: usize,
) -> Option<(Placement, ValleySweep)> {
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
    Some((repeated(&sweeper, lower_bound, placement, order, rounds), order))
}

/// Returns the smallest of `placement` and the placements of `rounds` more sweeps in the same order.
fn repeated(
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

/// Adds 1 for each block that ends above `height`.
fn count_too_high(problem: &Problem, placement: &Placement, height: Bytes, too_high: &mut [f32]) {
    for ((block, location), count) in problem.blocks().iter().zip(&placement.locations).zip(too_high) {
        if location.offset + block.size > height {
            *count += 1.0;
        }
    }
}
