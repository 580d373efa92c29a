//! Lowers the peak: searches windows around the step with the most live bytes, small ones first. Then moves back what did not
//! have to move: backends often fuse nodes that are neighbours in the given order.

use crate::graph::live_bytes::{Model, Run, peaks_of};
use crate::placement::{Bytes, Step};

use super::Hazards;
use super::beam::{BeamSearch, search};

/// Windows to search, one after the other until one lowers the peak: steps on each side of the peak, and the width of
/// the beam. The largest window is the whole graph.
pub type Ladder = &'static [(usize, usize)];

/// Small windows first: most of the graph stays as it is.
pub const LOCAL: Ladder = &[
    (8, 16),
    (32, 16),
    (128, 8),
    (512, 4),
    (usize::MAX, 1),
    (128, 64),
    (usize::MAX, 4),
    (512, 32),
    (usize::MAX, 16),
    (usize::MAX, 64),
];

/// The whole graph first: for graphs that are in a bad order everywhere.
pub const GLOBAL: Ladder = &[(usize::MAX, 1), (usize::MAX, 4), (32, 16), (128, 16), (usize::MAX, 16)];

/// How often a window is searched for a still lower peak.
const DEEPER: usize = 5;

/// The search for an order with lower peaks.
#[derive(Debug)]
pub struct Improver<'a> {
    pub model: &'a Model,
    pub hazards: &'a Hazards,
    /// The windows to search.
    pub ladder: Ladder,
    /// The order so far.
    pub order: Vec<Step>,
    /// Work that is left.
    pub work: u64,
}

impl Improver<'_> {
    /// Improves the order until no window helps, or no work is left. No buffer's peak ever rises.
    pub fn improve(&mut self) {
        while self.work > 0 {
            self.count_whole_run();
            let peaks = peaks_of(&mut Run::new(self.model), &self.order);
            let mut buffers: Vec<usize> = (0..peaks.len()).filter(|&buffer| peaks[buffer] > 0).collect();
            buffers.sort_by_key(|&buffer| std::cmp::Reverse(peaks[buffer]));
            if !buffers.into_iter().any(|buffer| self.lower_buffer(buffer, &peaks)) {
                return;
            }
        }
    }

    /// Takes the work of simulating the whole graph.
    fn count_whole_run(&mut self) {
        self.work = self.work.saturating_sub(self.order.len() as u64);
    }

    fn lower_buffer(&mut self, buffer: usize, peaks: &[Bytes]) -> bool {
        let live = self.live_bytes(buffer);
        let Some(at) = live.iter().position(|&live| live == peaks[buffer]) else { return false };
        let mut tried = Vec::new();
        for (side, width) in self.ladder.iter().copied() {
            let window = (at.saturating_sub(side), at.saturating_add(side).saturating_add(1).min(live.len()));
            if tried.contains(&(window, width)) {
                continue;
            }
            tried.push((window, width));
            let outside = live[..window.0].iter().chain(&live[window.1..]).copied().max().unwrap_or(0);
            if self.lower_window(window, width, buffer, peaks, outside) {
                return true;
            }
        }
        false
    }

    /// Returns the memory profile of a buffer: live bytes by step.
    fn live_bytes(&self, buffer: usize) -> Vec<Bytes> {
        let mut run = Run::new(self.model);
        let live = |&step: &Step| peaks_of(&mut run, &[step])[buffer];
        self.order.iter().map(live).collect()
    }

    /// Searches for an order of the window with a lower peak, then for lower ones still, as long as the peak is above
    /// the live bytes `outside`.
    fn lower_window(
        &mut self,
        window: (usize, usize),
        width: usize,
        buffer: usize,
        peaks: &[Bytes],
        outside: Bytes,
    ) -> bool {
        self.count_whole_run();
        let mut run = Run::new(self.model);
        self.order[..window.0].iter().for_each(|&step| run.forward(step));
        let mut caps = peaks.to_vec();
        let mut most = peaks[buffer];
        if run.live()[buffer] >= most {
            return false;
        }
        let mut least = outside.max(run.live()[buffer]).min(most - 1);
        let mut lowered = false;
        caps[buffer] = most - 1;
        for _ in 0..DEEPER {
            let next = BeamSearch { hazards: self.hazards, order: &self.order, window, caps: &caps, width };
            match search(&mut run, next, &mut self.work) {
                Some(steps) => {
                    most = peaks_of(&mut run.clone(), &steps)[buffer];
                    self.order[window.0..window.1].copy_from_slice(&steps);
                    lowered = true;
                }
                None if !lowered => return false,
                None => least = caps[buffer] + 1,
            }
            if least >= most {
                break;
            }
            caps[buffer] = least + (most - least) / 2;
        }
        lowered
    }
}

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
