//! Passes of lastuse, tried on a graph: what each leaves of the peaks.

use std::cmp::Reverse;

use crate::graph::recompute::{RecomputeEffort, TrainingGraph, recompute, work_of};
use crate::graph::tiling::{TilingEffort, TilingLimits};
use crate::graph::{BufferIndex, Flags, Requests, TensorId};
use crate::placement::Bytes;

use super::advice::Tried;
use super::case::Case;
use super::change::Change;
use super::remedies::{Lowered, Pass, Tiled};
use super::trial::Trial;

/// The work limit of the search for tilings: some tenths of a second.
const TILING: TilingEffort = TilingEffort(1_000_000);

/// The work limit of the search for what to compute again: some tenths of a second.
const RECOMPUTATION: RecomputeEffort = RecomputeEffort(4_000_000);

/// The work of that search, in trials.
const RECOMPUTING: u64 = 10;

/// Savings below this part of the plan, in hundredths, are not worth the time of the tiles.
const MIN_SAVED: Bytes = 5;

/// What the passes leave of the peaks of a graph.
pub struct Passes {
    /// The live bytes at the peak of each buffer, after each pass that changes the graph.
    bounds: Vec<(Pass, Vec<Bytes>)>,
    /// The graph in tiles, if they are worth their time.
    pub tiled: Option<Tiled>,
    /// False if the work limit left a pass untried.
    pub all_tried: bool,
}

impl Passes {
    /// Tries tiling and recomputation as far as the work allows; `everywhere` are the changes that concern all buffers.
    pub fn of(case: &Case<'_>, everywhere: &[Tried]) -> Self {
        let (tiling, tiled) = case.tiled().unzip();
        let recomputed = case.recomputed().map(|trial| (Pass::Recomputation, trial.bounds));
        let changes = everywhere.iter().filter_map(|tried| Some((pass(&tried.change)?, tried.trial.bounds.clone())));
        let bounds = tiling.map(|bounds| (Pass::Tiling, bounds)).into_iter().chain(recomputed).chain(changes).collect();
        Self { bounds, tiled: tiled.flatten(), all_tried: case.all_tried() }
    }

    /// Returns the passes that lower the peak of a buffer, the one that lowers it most first. Memory that other buffers need
    /// instead is not saved.
    pub fn lowering(&self, case: &Case<'_>, buffer: usize) -> Vec<Lowered> {
        let sum = |bounds: &mut dyn Iterator<Item = Bytes>| bounds.fold(0, Bytes::saturating_add);
        let given = sum(&mut (0..case.planned.buffers.len()).map(|buffer| case.bound(buffer)));
        let lowered = |(pass, bounds): &(Pass, Vec<Bytes>)| {
            let lower_bound = bounds[buffer];
            let saves = case.bound(buffer).checked_sub(lower_bound).filter(|&saves| saves > 0)?;
            let is_saved = sum(&mut bounds.iter().copied()) < given;
            is_saved.then_some(Lowered { pass: *pass, saves, lower_bound })
        };
        let mut found: Vec<Lowered> = self.bounds.iter().filter_map(lowered).collect();
        found.sort_by_key(|lowered| Reverse(lowered.saves));
        found
    }
}

/// Returns the pass that makes a change.
fn pass(change: &Change) -> Option<Pass> {
    match change {
        Change::Reorder { .. } => Some(Pass::Reorder),
        Change::RemoveCopies { .. } => Some(Pass::RemoveCopies),
        _ => None,
    }
}

impl Case<'_> {
    /// Searches for the smallest graph with large intermediates in tiles. Returns its bounds, by buffer, and what it saves if
    /// that is worth the time; `None` if nothing is tiled, or no work is left.
    fn tiled(&self) -> Option<(Vec<Bytes>, Option<Tiled>)> {
        if !self.may_try(1) {
            return None;
        }
        let mut snapshot = self.planned.snapshot.clone();
        let limits = TilingLimits { effort: TILING, ..TilingLimits::of(0) };
        let found = snapshot.tile(self.planned.buffers, limits, &mut |_| true).ok().filter(|found| found.is_changed)?;
        let plan = snapshot.plan_in(self.planned.buffers).ok()?;
        let bounds = plan.buffers.iter().map(|buffer| buffer.lower_bound).collect();
        let saves = found.before.saturating_sub(found.after);
        let is_worth_it = u128::from(saves) * 100 >= u128::from(found.before) * u128::from(MIN_SAVED);
        let largest = found.tiled.iter().max_by_key(|tiled| tiled.bytes[0]).filter(|_| is_worth_it);
        let tiled = largest.map(|largest| Tiled {
            saves,
            size: found.after,
            tensor: self.named(largest.tensor),
            tiles: largest.tiles,
            others: found.tiled.len() - 1,
        });
        Some((bounds, tiled))
    }

    /// Searches for the smallest graph that computes results of the forward pass again. `None` if nothing is trained, or no
    /// work is left.
    fn recomputed(&self) -> Option<Trial> {
        let (snapshot, buffers) = (self.planned.snapshot, self.planned.buffers);
        let graph = &snapshot.graph;
        if !graph.nodes().iter().any(|&node| graph.tensor(node).flags.has(Flags::LOSS)) || !self.may_try(RECOMPUTING) {
            return None;
        }
        let count = snapshot.tensors.len();
        let work: Vec<u64> = (0..).take(count).map(|id| work_of(graph, id)).collect();
        let (leafs, nodes) = snapshot.requested_buffers();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let (same_memory, kept) = (self.planned.same_memory, vec![false; count]);
        let subject = TrainingGraph { graph, buffers, requests, same_memory, work: &work, kept: &kept };
        let mut sizes = |id: TensorId, buffer: BufferIndex| snapshot.tensors[id as usize].size_in(buffer);
        let found = recompute(subject, &mut sizes, 0, RECOMPUTATION, &mut |_| true).ok()?;
        self.try_edited(found.edited, buffers)
    }
}
