//! The draft with regions tiled.

use crate::graph::TensorId;
use crate::placement::Step;

use super::draft::Draft;
use super::facts::DraftFacts;
use super::region::{Grid, Place, Region};
use super::tiles::{Added, Tile, Tiling};

/// A region, and the tiles that it is tiled into.
#[derive(Clone, Debug)]
pub struct RegionTiling {
    pub region: Region,
    pub grid: Grid,
    pub place: Place,
    /// Units of each tile but the last, which may have fewer.
    pub units: i64,
}

impl RegionTiling {
    /// Returns how many tiles there are.
    pub fn tiles(&self) -> i64 {
        self.grid.tiles(self.units)
    }
}

/// Returns the draft with regions tiled whose places are apart; `None` if a tile cannot be made.
pub fn rewrite(facts: &DraftFacts<'_>, tilings: &[RegionTiling]) -> Option<Draft> {
    let mut tilings: Vec<&RegionTiling> = tilings.iter().collect();
    tilings.sort_by_key(|tiled| tiled.place.steps.start);
    let mut tiling = Tiling::of(facts.draft);
    let mut next = 0;
    for tiled in tilings {
        keep(facts, &mut tiling, next..tiled.place.steps.start);
        add_tiled(facts, &mut tiling, tiled)?;
        next = tiled.place.steps.end;
    }
    keep(facts, &mut tiling, next..Step::try_from(facts.draft.graph.nodes().len()).ok()?);
    Some(tiling.finish())
}

fn keep(facts: &DraftFacts<'_>, tiling: &mut Tiling<'_>, steps: impl IntoIterator<Item = Step>) {
    for step in steps {
        tiling.list(facts.draft.graph.nodes()[step as usize], facts.draft.node_buffers[step as usize]);
    }
}

fn add_tiled(facts: &DraftFacts<'_>, tiling: &mut Tiling<'_>, tiled: &RegionTiling) -> Option<()> {
    keep(facts, tiling, tiled.place.before.iter().copied());
    let buffer = |node: TensorId| facts.steps[node as usize].map_or(0, |step| facts.draft.node_buffers[step as usize]);
    let outputs: Vec<TensorId> = tiled.region.outputs(facts).map(|member| member.tensor).collect();
    let copied = tiled.region.outputs(facts).filter(|member| Region::is_copied(facts, member) == Some(true));
    let copied: Vec<TensorId> = copied.map(|member| member.tensor).collect();
    for &output in outputs.iter().filter(|&&output| facts.draft.graph.tensor(output).view.is_none()) {
        tiling.add_memory(output, buffer(output));
    }
    let count = u32::try_from(tiled.tiles()).ok()?;
    let mut added = Added::default();
    // By output: its tiles.
    let mut tiles = vec![Vec::with_capacity(count as usize); outputs.len()];
    for (number, first) in (1..=count).zip((0..).map(|tile| tile * tiled.units)) {
        let units = first..(first + tiled.units).min(tiled.grid.units);
        let after = tiles.last().and_then(|tiles| tiles.last()).copied();
        let (region, number) = (&tiled.region, [number, count]);
        let tile = Tile { region, grid: tiled.grid, units, number, after, copied: &copied };
        tiling.add_tile(&tile, buffer, &mut added)?;
        for (tiles, &output) in tiles.iter_mut().zip(&outputs) {
            tiles.push(added.tile_of(&tiled.region, output)?);
        }
    }
    for (tiles, &output) in tiles.iter().zip(&outputs) {
        tiling.join(output, tiles, buffer(output));
    }
    outputs.iter().for_each(|&output| tiling.list(output, buffer(output)));
    keep(facts, tiling, tiled.place.after.iter().copied());
    Some(())
}
