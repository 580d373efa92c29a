//! Regions around large intermediates at a step, and how they could be tiled.

use crate::graph::{BufferIndex, TensorId};
use crate::placement::{Bytes, Step};

use super::estimate::{Live, cost_of_tile, fewest_units, live};
use super::facts::DraftFacts;
use super::region::{Grid, Place, Region};
use super::rewrite::RegionTiling;

/// How many of the largest blocks at a step are tried to be made smaller.
const LARGEST: usize = 4;

/// How often a region grows.
const GROWTH: usize = 12;

/// Maximum number of tiles per region.
const MOST_TILES: i64 = 64;

/// By how many multiples tiles may be longer than needed, so that the last one is not too short.
const LONGER: i64 = 16;

/// A way to tile a region.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub tiled: RegionTiling,
    estimate: Estimate,
}

impl Candidate {
    /// Returns this tiling, found for one step, at another step: layers, and tiles of a tensor, repeat each other. `None` unless
    /// both steps have equal live bytes, the nodes at equal distances from the step form a region, and its estimate equals
    /// this one. Counts the regions looked at in `work`.
    pub fn again(&self, facts: &DraftFacts<'_>, found_for: Aim, aim: Aim, work: &mut u64) -> Option<Self> {
        let profile = &facts.profiles[aim.buffer as usize].live;
        if profile[aim.step as usize] != profile[found_for.step as usize] {
            return None;
        }
        let nodes = facts.draft.graph.nodes();
        let mut region = Region::default();
        for &internal in &self.tiled.region.internal {
            let step = i64::from(facts.steps[internal as usize]?) - i64::from(found_for.step) + i64::from(aim.step);
            let &moved = nodes.get(usize::try_from(step).ok()?)?;
            let dimension = self.tiled.region.member(internal)?.dimension;
            region = region.with_internal(facts, moved, dimension)?;
            *work += region.members.len() as u64;
        }
        let estimate = estimate(facts, &region, aim, None).filter(|estimate| *estimate == self.estimate)?;
        let place = Place::of(facts, &region)?;
        Some(Self { tiled: estimate.tiled(region, place), estimate })
    }
}

/// How a region is to be tiled, and the cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Estimate {
    grid: Grid,
    /// Units of each tile but the last.
    units: i64,
    /// How many tiles there are.
    tiles: i64,
    /// The live bytes of the buffer while it runs.
    bytes: Bytes,
    /// The time that it adds, in picoseconds.
    cost: u64,
}

impl Estimate {
    /// Returns a key that is least for the best candidate: first those that fit, by their cost; then the smallest.
    fn rank(&self, target: Bytes) -> (bool, u64, u64, i64) {
        let Self { bytes, cost, tiles, .. } = *self;
        if bytes <= target { (false, cost, bytes, tiles) } else { (true, bytes, cost, tiles) }
    }

    fn tiled(self, region: Region, place: Place) -> RegionTiling {
        RegionTiling { region, grid: self.grid, place, units: self.units }
    }
}

/// The goal of tiling a region.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    pub buffer: BufferIndex,
    /// The step at which too much is live.
    pub step: Step,
    /// The live bytes that are aimed at.
    pub target: Bytes,
    pub threads: u32,
}

/// Returns the best way to lower the live bytes at a step; `None` if none is found. Counts the regions looked at in `work`.
pub fn best(facts: &DraftFacts<'_>, aim: Aim, work: &mut u64) -> Option<Candidate> {
    let mut best: Option<Candidate> = None;
    for seed in largest(facts, aim) {
        for dimension in (0..4).rev() {
            let Some(mut region) = Region::around(facts, seed, dimension) else { continue };
            for _ in 0..GROWTH {
                *work += region.members.len() as u64;
                let limit = best.as_ref().map(|best| best.estimate.bytes.max(aim.target));
                if let Some(estimate) = estimate(facts, &region, aim, limit)
                    && best.as_ref().is_none_or(|best| estimate.rank(aim.target) < best.estimate.rank(aim.target))
                    && let Some(place) = Place::of(facts, &region)
                {
                    best = Some(Candidate { tiled: estimate.tiled(region.clone(), place), estimate });
                }
                let neighbours = region.neighbours(facts);
                let grown = neighbours.iter().find_map(|&(id, dimension)| region.with_internal(facts, id, dimension));
                let Some(grown) = grown else { break };
                region = grown;
            }
        }
    }
    best
}

/// Returns the tensors in the largest blocks at a step that nodes compute.
fn largest(facts: &DraftFacts<'_>, aim: Aim) -> Vec<TensorId> {
    let blocks = facts.problems[aim.buffer as usize].blocks().iter().zip(facts.in_block[aim.buffer as usize].iter());
    let live = blocks.filter(|(block, _)| (block.first_step..block.end_step).contains(&aim.step));
    let latest = |tensors: &[TensorId]| {
        let computed = tensors.iter().filter(|&&id| facts.steps[id as usize].is_some_and(|step| step <= aim.step));
        computed.copied().max_by_key(|&id| facts.steps[id as usize])
    };
    let mut found: Vec<(Bytes, TensorId)> =
        live.filter_map(|(block, tensors)| Some((block.size, latest(tensors)?))).collect();
    found.sort_by_key(|&(size, id)| (std::cmp::Reverse(size), id));
    found.truncate(LARGEST);
    found.into_iter().map(|(_, id)| id).collect()
}

/// Returns how to tile a region no finer than the target needs, or as finely as is possible. `None` if that leaves the step as
/// it is, or more than `limit` bytes live.
fn estimate(facts: &DraftFacts<'_>, region: &Region, aim: Aim, limit: Option<Bytes>) -> Option<Estimate> {
    let now = facts.profiles[aim.buffer as usize].live[aim.step as usize];
    let bytes = live(facts, region)?;
    if bytes.fixed >= now || limit.is_some_and(|limit| bytes.fixed > limit) {
        return None;
    }
    let grid = region.grid(facts)?;
    let by_tiles = grid.rounded_up((grid.units + MOST_TILES - 1) / MOST_TILES);
    let by_threads = grid.rounded_up(fewest_units(facts, region, grid.units, aim.threads));
    let least = by_tiles.max(by_threads).max(grid.rounded_up(grid.fewest));
    let most = most_units(bytes, grid.units, aim.target) / grid.multiple * grid.multiple;
    let units = most.max(least);
    if units >= grid.units {
        return None;
    }
    // This number of tiles, of equal size as far as possible.
    let tiles = (grid.units + units - 1) / units;
    let units = with_long_last_tile(grid, grid.rounded_up((grid.units + tiles - 1) / tiles))?;
    let bytes = bytes.with_tiles(units, grid.units);
    if bytes >= now {
        return None;
    }
    let tiles = grid.tiles(units);
    let more = u64::try_from(tiles - 1).unwrap_or(0);
    Some(Estimate { grid, units, tiles, bytes, cost: cost_of_tile(facts, region).saturating_mul(more) })
}

/// Returns the units of a tile, or a few more, with which the last tile is not too short.
fn with_long_last_tile(grid: Grid, units: i64) -> Option<i64> {
    let longer = (0..LONGER).map(|more| units + more * grid.multiple);
    longer.take_while(|&units| units < grid.units).find(|&units| grid.last(units) >= grid.fewest)
}

/// Returns the most units of a tile with which the live bytes are within the target; 0 if there are none.
fn most_units(live: Live, units: i64, target: Bytes) -> i64 {
    let left = target.saturating_sub(live.fixed);
    if live.divided == 0 {
        return units;
    }
    let most = u128::from(left) * u128::from(units.unsigned_abs()) / u128::from(live.divided);
    i64::try_from(most).unwrap_or(units).min(units)
}
