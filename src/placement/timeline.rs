//! The live bytes: by step, the memory profile; and at the starts of live ranges, in order with their ends.

use std::ops::Range;

use super::problem::refill;
use super::{Block, BlockId, BlockList, Bytes, Problem, Step};

/// Returns the peak of the memory profile. No placement of these live ranges is smaller.
///
/// Expects blocks that [`BlockList::check_total`] accepts.
pub fn lower_bound(problem: &Problem) -> Bytes {
    Timeline::of(problem).lower_bound
}

/// With at most this number of steps for each block, counting ends by step is faster than sorting them.
const FEW_STEPS: usize = 8;

/// The starts and ends of live ranges in order, with the live bytes at each start.
///
/// The memory profile rises nowhere else, so its peak is among these.
#[derive(Debug, Default)]
pub struct Timeline {
    /// The blocks in the order of their ends; among equal ends the earlier block first.
    pub by_end: Vec<BlockId>,
    /// By block: how many blocks have ended when it starts. They are the first of `by_end`.
    pub ended: Vec<u32>,
    /// By block: the live bytes once it has started. Where several blocks start at a step, the last of them has the
    /// live bytes of that step.
    pub live_bytes: Vec<Bytes>,
    /// The largest of `live_bytes`.
    pub lower_bound: Bytes,
    /// Working memory, by step.
    ends: Vec<u32>,
}

impl Timeline {
    /// Computes the timeline of blocks that [`BlockList::check_total`] accepts.
    pub fn of(list: &BlockList) -> Self {
        let mut timeline = Self::default();
        timeline.compute(list);
        timeline
    }

    /// Computes the timeline of blocks that [`BlockList::check_total`] accepts, in the memory of this one.
    pub fn compute(&mut self, list: &BlockList) {
        let blocks = list.blocks();
        let steps = blocks.iter().map(|block| block.end_step).max().unwrap_or(0) as usize;
        if steps <= FEW_STEPS * blocks.len() {
            self.sort_by_counting(blocks, steps);
        } else {
            self.by_end.clear();
            self.by_end.extend((0..).take(blocks.len()));
            self.by_end.sort_unstable_by_key(|&id| (blocks[id as usize].end_step, id));
        }
        self.sweep(blocks);
        if !list.shrinks().is_empty() {
            self.subtract_tails(list);
        }
    }

    /// Sorts blocks that end after at most `steps` steps by their ends, without comparing them.
    fn sort_by_counting(&mut self, blocks: &[Block], steps: usize) {
        let Self { by_end, ends, .. } = self;
        refill(ends, 0, steps + 1);
        for block in blocks {
            ends[block.end_step as usize] += 1;
        }
        // By step, the position of the first block that ends there.
        let mut before = 0;
        for end in ends.iter_mut() {
            before += std::mem::replace(end, before);
        }
        refill(by_end, 0, blocks.len());
        for (id, block) in (0..).zip(blocks) {
            let next = &mut ends[block.end_step as usize];
            by_end[*next as usize] = id;
            *next += 1;
        }
    }

    /// Computes the facts about each block from the order of the ends.
    fn sweep(&mut self, blocks: &[Block]) {
        let Self { by_end, ended, live_bytes, lower_bound, .. } = self;
        refill(ended, 0, blocks.len());
        refill(live_bytes, 0, blocks.len());
        let (mut live, mut largest): (Bytes, Bytes) = (0, 0);
        let mut by_end = by_end.iter().map(|&id| &blocks[id as usize]);
        let (mut ends, mut next) = (0, by_end.next());
        for ((block, ended), live_bytes) in blocks.iter().zip(ended).zip(live_bytes) {
            while let Some(dead) = next
                && dead.end_step <= block.first_step
            {
                live -= dead.size;
                ends += 1;
                next = by_end.next();
            }
            live += block.size;
            largest = largest.max(live);
            (*ended, *live_bytes) = (ends, live);
        }
        *lower_bound = largest;
    }

    /// Subtracts the bytes that become free before their blocks end.
    fn subtract_tails(&mut self, list: &BlockList) {
        let blocks = list.blocks();
        let first_from = |step: Step| blocks.partition_point(|block| block.first_step < step);
        let tails = list.tails().map(|tail| (first_from(tail.free.start)..first_from(tail.free.end), tail.size));
        for (live, free) in self.live_bytes.iter_mut().zip(sum_of_ranges(blocks.len(), tails)) {
            *live -= free;
        }
        self.lower_bound = self.live_bytes.iter().copied().max().unwrap_or(0);
    }
}

/// The memory profile of a problem: the live bytes at each step, up to the last step at which a block is live.
#[derive(Clone, Debug)]
pub struct MemoryProfile {
    /// By step. The largest entry is the [lower bound](lower_bound), which is faster to compute alone.
    pub live: Vec<Bytes>,
    /// By step, and for the end: bytes of the blocks that start before it, and of those that end by it.
    started: Vec<Bytes>,
    ended: Vec<Bytes>,
}

impl MemoryProfile {
    /// Computes the memory profile of blocks that [`BlockList::check_total`] accepts.
    pub fn of(problem: &Problem) -> Self {
        let blocks = problem.blocks();
        let steps = blocks.iter().map(|block| block.end_step as usize).max().unwrap_or(0);
        let since = |step: fn(&Block) -> Step| {
            sum_of_ranges(steps + 1, blocks.iter().map(move |block| (step(block) as usize..steps + 1, block.size)))
        };
        let (started, ended) = (since(|block| block.first_step + 1), since(|block| block.end_step));
        let freed = problem.tails().map(|tail| (tail.free.start as usize..tail.free.end as usize, tail.size));
        let freed = sum_of_ranges(steps, freed);
        let live = (0..steps).map(|step| started[step + 1] - ended[step] - freed[step]).collect();
        Self { live, started, ended }
    }

    /// Returns the first step with the most live bytes, and those bytes.
    pub fn peak(&self) -> Option<(Step, Bytes)> {
        let step = peaks(&self.live).first()?.start;
        Some((step, self.live[step as usize]))
    }

    /// Returns the bytes of the blocks that are live at some of these steps.
    pub fn overlapping(&self, steps: Range<Step>) -> Bytes {
        let at = |bytes: &[Bytes], step: Step| bytes[(step as usize).min(self.live.len())];
        at(&self.started, steps.end) - at(&self.ended, steps.start)
    }

    /// Returns the bytes that are live at a step, or at the end, and were live at the step before.
    pub fn crossing(&self, step: usize) -> Bytes {
        self.live.get(step).map_or(0, |live| live - (self.started[step + 1] - self.started[step]))
    }
}

/// Returns the steps at which a memory profile is at its peak, in order, as half-open ranges of adjacent steps.
pub fn peaks(profile: &[Bytes]) -> Vec<Range<Step>> {
    let peak = profile.iter().copied().max();
    let mut peaks: Vec<Range<Step>> = Vec::new();
    for (step, _) in (0..).zip(profile).filter(|&(_, &live)| Some(live) == peak) {
        match peaks.last_mut() {
            Some(last) if last.end == step => last.end = step + 1,
            _ => peaks.push(step..step + 1),
        }
    }
    peaks
}

/// Returns, by index below `len`, the sum of the values of all `ranges` that contain it.
///
/// Sums wrap around. So a value may be negative, in two's complement, as long as the sums are not.
pub fn sum_of_ranges(len: usize, ranges: impl Iterator<Item = (Range<usize>, u64)>) -> Vec<u64> {
    // First by how much the sum changes at each index.
    let mut sums = vec![0_u64; len + 1];
    for (range, value) in ranges {
        sums[range.start] = sums[range.start].wrapping_add(value);
        sums[range.end] = sums[range.end].wrapping_sub(value);
    }
    let mut sum: u64 = 0;
    for entry in &mut sums {
        sum = sum.wrapping_add(*entry);
        *entry = sum;
    }
    sums.pop();
    sums
}
