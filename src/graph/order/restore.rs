//! Moves back what did not have to move: backends often fuse nodes that are neighbours in the given order.

use crate::graph::live_bytes::{Model, Run, peaks_of};
use crate::placement::{Bytes, Step};

use super::Hazards;

/// Brings `order` closer to the given one without raising its peaks above `caps`. Stops when no `work` is left.
pub fn restore(model: &Model, hazards: &Hazards, order: &mut [Step], caps: &[Bytes], work: &mut u64) {
    let mut run = Run::new(model);
    let mut start = 0;
    for end in cuts(order) {
        let part = &mut order[start..end];
        let mut given = part.to_vec();
        given.sort_unstable();
        let peaks = peaks_of(&mut run.clone(), &given);
        if peaks.iter().zip(caps).all(|(peak, cap)| peak <= cap) {
            part.copy_from_slice(&given);
            part.iter().for_each(|&step| run.forward(step));
        } else {
            sort_where_possible(hazards, &mut run, part, caps, work);
        }
        start = end;
    }
}

/// Returns the positions at which the same nodes have run as in the given order.
fn cuts(order: &[Step]) -> Vec<usize> {
    let mut highest = 0;
    let is_cut = |(at, &step): (usize, &Step)| {
        highest = highest.max(step as usize);
        (highest == at).then_some(at + 1)
    };
    order.iter().enumerate().filter_map(is_cut).collect()
}

/// Moves each node before those that follow it in the given order, as far as hazards and caps allow.
fn sort_where_possible(hazards: &Hazards, run: &mut Run<'_>, part: &mut [Step], caps: &[Bytes], work: &mut u64) {
    for next in 0..part.len() {
        let mut at = next;
        while at > 0 && part[at - 1] > part[at] && *work > 0 {
            *work -= 1;
            let (left, right) = (part[at - 1], part[at]);
            if hazards.before(right).contains(&left) {
                break;
            }
            run.backward(left);
            if !run.fits(right, caps) {
                run.forward(left);
                break;
            }
            run.forward(right);
            let fits = run.fits(left, caps);
            run.backward(right);
            if !fits {
                run.forward(left);
                break;
            }
            part.swap(at - 1, at);
            at -= 1;
        }
        part[at..=next].iter().for_each(|&step| run.forward(step));
    }
}
