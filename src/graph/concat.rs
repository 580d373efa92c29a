//! An operand of CONCAT may be computed where the result will be: the copy then finds its bytes in place.
//!
//! ```text
//!  before   | a |           after   | result     |
//!           +---+------+            |   +--------+    the block of the result is there from the birth of `a`,
//!           |   result |            | a | b      |    so this is done only where it lowers the load
//! ```

use std::ops::Range;

use crate::placement::{Block, BlockId, Bytes, Problem, Step, Timeline, padded};

use super::plan::Pool;
use super::{Graph, Home, Layout, Lifetimes, TensorId};

/// Moves operands into results wherever the rules of the pool allow it and that lowers the peak around the CONCAT. By
/// pool, the course of its problem, where it was looked at.
pub fn compute_inside_concats(graph: &Graph, pools: &[Pool], found: &mut Lifetimes) -> Vec<Option<Timeline>> {
    if found.concats.is_empty() || !pools.iter().any(|pool| pool.rules.concat) {
        found.concats.clear();
        return pools.iter().map(|_| None).collect();
    }
    let mut known: Vec<Option<Course>> = pools.iter().map(|_| None).collect();
    for step in std::mem::take(&mut found.concats) {
        let node = graph.nodes()[step as usize];
        for (operand, range) in operands_in_one_piece(graph, node).into_iter().flatten() {
            let Some(candidate) = Candidate::find(pools, found, [operand, node], range, [step, graph.steps()]) else {
                continue;
            };
            let pool = candidate.result.pool as usize;
            let problem = &found.problems[pool];
            let course = known[pool].get_or_insert_with(|| Course::of(problem));
            if candidate.lowers_the_peak(problem, course) {
                candidate.accept(found);
                known[pool] = None;
            }
        }
    }
    known.into_iter().map(|course| course.map(|course| course.timeline)).collect()
}

/// The course of a problem.
struct Course {
    timeline: Timeline,
    /// The blocks at whose birth the load is the largest.
    peaks: Vec<usize>,
}

impl Course {
    fn of(problem: &Problem) -> Self {
        let timeline = Timeline::of(problem);
        let is_peak = |(block, load): (usize, &Bytes)| (*load == timeline.largest_load).then_some(block);
        Self { peaks: timeline.loads.iter().enumerate().filter_map(is_peak).collect(), timeline }
    }
}

/// Operands whose bytes lie in the result one after the other, and where.
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

/// An operand that could move.
struct Candidate {
    operand: Home,
    result: Home,
    /// Bytes from the start of the result to the operand.
    within: Bytes,
    /// The step of the CONCAT.
    step: Step,
}

impl Candidate {
    /// The operand, where it may lie inside `node`.
    fn find(
        pools: &[Pool],
        found: &Lifetimes,
        [operand, node]: [TensorId; 2],
        range: Range<Bytes>,
        [step, steps]: [Step; 2],
    ) -> Option<Self> {
        let within = range.start;
        let candidate =
            Self { operand: found.homes[operand as usize]?, result: found.homes[node as usize]?, within, step };
        let (from, to) = (candidate.operand, candidate.result);
        let pool = pools[from.pool as usize];
        if !pool.rules.concat || from.pool != to.pool || from.block == to.block {
            return None;
        }
        let problem = &found.problems[from.pool as usize];
        let [old, new] = candidate.blocks(problem);
        let is_shrinking = |block: BlockId| problem.shrinks().iter().any(|shrink| shrink.block == block);
        // A block that ends with this step belongs to the operand alone: whoever was in it before is done with.
        let is_right = old.death == step + 1
            && old.death < steps
            && (from.within, to.within) == (0, 0)
            && within.is_multiple_of(pool.alignment)
            && old.size <= padded(range.end - range.start, pool.alignment)
            && within + old.size <= new.size
            && !is_shrinking(from.block)
            && !is_shrinking(to.block);
        is_right.then_some(candidate)
    }

    fn blocks(&self, problem: &Problem) -> [Block; 2] {
        [self.operand, self.result].map(|home| problem.blocks()[home.block as usize])
    }

    /// Are the peaks from the birth of the operand to this step lower with it inside? There is none but at a birth.
    fn lowers_the_peak(&self, problem: &Problem, course: &Course) -> bool {
        let [old, new] = self.blocks(problem);
        let Timeline { loads, largest_load: peak, .. } = &course.timeline;
        let blocks = problem.blocks();
        let start = blocks.partition_point(|block| block.birth < old.birth);
        let end = blocks.partition_point(|block| block.birth <= self.step);
        let stays_below = |at: usize| {
            let (grown, shared) = if blocks[at].birth < new.birth { (new.size - old.size, 0) } else { (0, old.size) };
            loads[at] + grown < peak + shared
        };
        // The peaks are few, and mostly decide.
        let peaks = &course.peaks[course.peaks.partition_point(|&at| at < start)..];
        let peaks = &peaks[..peaks.partition_point(|&at| at < end)];
        !peaks.is_empty() && peaks.iter().all(|&at| stays_below(at)) && (start..end).all(stays_below)
    }

    /// Joins the two blocks.
    fn accept(&self, found: &mut Lifetimes) {
        let pool = self.operand.pool;
        let problem = &found.problems[pool as usize];
        let [old, new] = self.blocks(problem);
        let joined = Block { size: new.size, birth: old.birth.min(new.birth), death: new.death };
        let [from, to] = [self.operand.block, self.result.block];
        let mut order: Vec<(BlockId, Block)> = (0..).zip(problem.blocks().iter().copied()).collect();
        order[to as usize].1 = joined;
        order.remove(from as usize);
        order.sort_by_key(|(_, block)| block.birth);
        let mut ids = vec![0; problem.blocks().len()];
        let mut rebuilt = Problem::new(problem.alignment(), problem.max_chunk());
        for (id, block) in order {
            ids[id as usize] = rebuilt.add(block);
        }
        ids[from as usize] = ids[to as usize];
        for shrink in problem.shrinks() {
            rebuilt.shrink(ids[shrink.block as usize], shrink.step, shrink.size);
        }
        for home in found.homes.iter_mut().flatten().filter(|home| home.pool == pool) {
            home.within += if home.block == from { self.within } else { 0 };
            home.block = ids[home.block as usize];
        }
        found.problems[pool as usize] = rebuilt;
        found.beyond_ggml = true;
    }
}
