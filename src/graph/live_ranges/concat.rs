//! Operands of CONCAT may be computed inside the result, so that the copy finds their bytes in place.
//!
//! ```text
//!  before   | a |           after   | result     |
//!           +---+------+            |   +--------+    the block of the result starts with `a`, so this is done only
//!           |   result |            | a | b      |    where it lowers the peak
//! ```

use std::ops::Range;

use crate::placement::{Block, BlockId, BlockList, Bytes, Step, Timeline, padded};

use crate::graph::{BufferSpec, Graph, Layout, TensorId};

use super::{Allocation, LiveRanges};

/// Moves operands into results wherever the rules of the buffer allow it and that lowers the peak around the CONCAT.
/// Returns, by buffer, the timeline of its blocks, where it is known; an empty list if none is.
pub fn compute_inside_concats(graph: &Graph, buffers: &[BufferSpec], found: &mut LiveRanges) -> Vec<Option<Timeline>> {
    if found.concats.is_empty() || !buffers.iter().any(|buffer| buffer.rules.concat) {
        found.concats.clear();
        return Vec::new();
    }
    let mut known: Vec<Option<Profile>> = buffers.iter().map(|_| None).collect();
    for step in std::mem::take(&mut found.concats) {
        let node = graph.nodes()[step as usize];
        for (operand, range) in operands_in_one_piece(graph, node).into_iter().flatten() {
            if graph.is_retained_until(graph.root(operand), node) {
                continue;
            }
            let Some(candidate) = ConcatCandidate::find(buffers, found, [operand, node], range, [step, graph.steps()])
            else {
                continue;
            };
            let buffer = candidate.result.buffer as usize;
            let list = &found.blocks[buffer];
            let profile = known[buffer].get_or_insert_with(|| Profile::of(list));
            if candidate.lowers_the_peak(list, profile) {
                candidate.accept(found);
                known[buffer] = None;
            }
        }
    }
    known.into_iter().map(|profile| profile.map(|profile| profile.timeline)).collect()
}

/// The memory profile of the blocks of a buffer.
struct Profile {
    timeline: Timeline,
    /// The blocks at whose first step the live bytes are at the peak.
    peaks: Vec<usize>,
}

impl Profile {
    fn of(list: &BlockList) -> Self {
        let timeline = Timeline::of(list);
        let is_peak = |(block, load): (usize, &Bytes)| (*load == timeline.lower_bound).then_some(block);
        Self { peaks: timeline.live_bytes.iter().enumerate().filter_map(is_peak).collect(), timeline }
    }
}

/// Returns the operands of a CONCAT that the result holds in one piece each, and their bytes in it.
fn operands_in_one_piece(graph: &Graph, node: TensorId) -> [Option<(TensorId, Range<Bytes>)>; 2] {
    let &[first, second] = graph.sources(node) else { return [None, None] };
    let [a, b, result] = [first, second, node].map(|id| graph.layout(id));
    let joined: Vec<usize> = (0..4).filter(|&d| a.ne[d] != result.ne[d] || b.ne[d] != result.ne[d]).collect();
    let &[dimension] = joined.as_slice() else { return [None, None] };
    let is_one_piece = a.ne[dimension].checked_add(b.ne[dimension]) == Some(result.ne[dimension])
        && result.ne[dimension + 1..].iter().all(|&extent| extent == 1)
        && [a, b]
            .iter()
            .all(|operand| operand.element == result.element && operand.nb[..=dimension] == result.nb[..=dimension]);
    let bytes = |operand: &Layout| result.nb[dimension].checked_mul(Bytes::try_from(operand.ne[dimension]).ok()?);
    match (bytes(a), bytes(result)) {
        (Some(middle), Some(end)) if is_one_piece && graph.root(first) != graph.root(second) => {
            [Some((first, 0..middle)), Some((second, middle..end))]
        }
        _ => [None, None],
    }
}

/// An operand that could be computed inside the result.
struct ConcatCandidate {
    operand: Allocation,
    result: Allocation,
    /// Bytes from the start of the result to the operand.
    within: Bytes,
    /// The step of the CONCAT.
    step: Step,
}

impl ConcatCandidate {
    /// Returns the operand if its block may become a part of the block of `node`. `range` is the operand's bytes in the
    /// result.
    fn find(
        buffers: &[BufferSpec],
        found: &LiveRanges,
        [operand, node]: [TensorId; 2],
        range: Range<Bytes>,
        [step, steps]: [Step; 2],
    ) -> Option<Self> {
        let within = range.start;
        let candidate = Self {
            operand: found.allocations[operand as usize]?,
            result: found.allocations[node as usize]?,
            within,
            step,
        };
        let (from, to) = (candidate.operand, candidate.result);
        let buffer = buffers[from.buffer as usize];
        if !buffer.rules.concat || from.buffer != to.buffer || from.block == to.block {
            return None;
        }
        let list = &found.blocks[from.buffer as usize];
        let [old, new] = candidate.blocks(list);
        let is_shrinking = |block: BlockId| list.shrinks().iter().any(|shrink| shrink.block == block);
        // A block that ends with this step holds the operand alone: tensors that it was computed in place of are dead.
        let is_right = old.end_step == step + 1
            && old.end_step < steps
            && (from.within, to.within) == (0, 0)
            && within.is_multiple_of(buffer.alignment)
            && old.size <= padded(range.end - range.start, buffer.alignment)
            && within + old.size <= new.size
            && !is_shrinking(from.block)
            && !is_shrinking(to.block);
        is_right.then_some(candidate)
    }

    fn blocks(&self, list: &BlockList) -> [Block; 2] {
        [self.operand, self.result].map(|allocation| list.blocks()[allocation.block as usize])
    }

    /// Returns `true` if the peaks from the first step of the operand to this step are lower with it inside. Live bytes
    /// rise only at the first step of a block.
    fn lowers_the_peak(&self, list: &BlockList, profile: &Profile) -> bool {
        let [old, new] = self.blocks(list);
        let Timeline { live_bytes: loads, lower_bound: peak, .. } = &profile.timeline;
        let blocks = list.blocks();
        let start = blocks.partition_point(|block| block.first_step < old.first_step);
        let end = blocks.partition_point(|block| block.first_step <= self.step);
        let stays_below = |at: usize| {
            let (grown, shared) =
                if blocks[at].first_step < new.first_step { (new.size - old.size, 0) } else { (0, old.size) };
            loads[at] + grown < peak + shared
        };
        // The peaks are few, and usually decide.
        let peaks = &profile.peaks[profile.peaks.partition_point(|&at| at < start)..];
        let peaks = &peaks[..peaks.partition_point(|&at| at < end)];
        !peaks.is_empty() && peaks.iter().all(|&at| stays_below(at)) && (start..end).all(stays_below)
    }

    /// Merges the two blocks.
    fn accept(&self, found: &mut LiveRanges) {
        let buffer = self.operand.buffer;
        let list = &found.blocks[buffer as usize];
        let [old, new] = self.blocks(list);
        let merged = Block { size: new.size, first_step: old.first_step.min(new.first_step), end_step: new.end_step };
        let [from, to] = [self.operand.block, self.result.block];
        let mut order: Vec<(BlockId, Block)> = (0..).zip(list.blocks().iter().copied()).collect();
        order[to as usize].1 = merged;
        order.remove(from as usize);
        order.sort_by_key(|(_, block)| block.first_step);
        let mut ids = vec![0; list.blocks().len()];
        let mut rebuilt = BlockList::with_capacity(list.blocks().len());
        for (id, block) in order {
            ids[id as usize] = rebuilt.add(block);
        }
        ids[from as usize] = ids[to as usize];
        for shrink in list.shrinks() {
            rebuilt.shrink(ids[shrink.block as usize], shrink.step, shrink.size);
        }
        for allocation in found.allocations.iter_mut().flatten().filter(|allocation| allocation.buffer == buffer) {
            allocation.within += if allocation.block == from { self.within } else { 0 };
            allocation.block = ids[allocation.block as usize];
        }
        found.blocks[buffer as usize] = rebuilt;
        found.beyond_ggml = true;
    }
}
