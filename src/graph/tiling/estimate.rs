//! The live bytes while a region runs in tiles.

use crate::graph::live_bytes::{Run, peaks_of};
use crate::graph::{BufferIndex, TensorId};
use crate::placement::{BlockId, Bytes, Step};

use super::facts::Facts;
use super::region::Region;

/// The live bytes of one buffer while a region runs in tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Bytes live in every tile: other live tensors, sources that tiles read as a whole, and the outputs.
    pub fixed: Bytes,
    /// The most bytes of what only the region uses, if it is not tiled. Those of a tile are its share of these.
    pub divided: Bytes,
}

impl Live {
    /// Returns the live bytes with tiles of `tile` of `units` units.
    pub fn with_tiles(self, tile: i64, units: i64) -> Bytes {
        let share =
            u128::from(self.divided) * u128::from(tile.unsigned_abs()) / u128::from(units.unsigned_abs().max(1));
        self.fixed.saturating_add(Bytes::try_from(share).unwrap_or(Bytes::MAX))
    }
}

/// Returns the live bytes of the buffer that holds all of a region's results; `None` if they are in several.
pub fn live(facts: &Facts<'_>, region: &Region) -> Option<Live> {
    let (buffer, steps) = (buffer_of(facts, region)?, region.steps(facts)?);
    let mut fixed = facts.profiles[buffer as usize].overlapping(steps);
    for block in blocks_of(facts, region) {
        let tensors = facts.in_block[buffer as usize].of(block);
        let outside = tensors.iter().filter(|id| region.member(**id).is_none() && is_read(facts, region, **id));
        let bytes = outside.map(|&id| facts.model.size(id)).max().unwrap_or(0);
        fixed =
            fixed.saturating_sub(facts.problems[buffer as usize].blocks()[block as usize].size).saturating_add(bytes);
    }
    for output in region.outputs(facts) {
        fixed = fixed.saturating_add(facts.model.size(output.tensor));
    }
    Some(Live { fixed, divided: divided(facts, region, buffer) })
}

/// Returns the blocks of members, each once.
fn blocks_of(facts: &Facts<'_>, region: &Region) -> Vec<BlockId> {
    let members = region.members.iter();
    let mut blocks: Vec<BlockId> =
        members.filter_map(|member| Some(facts.allocations[member.tensor as usize]?.block)).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

fn buffer_of(facts: &Facts<'_>, region: &Region) -> Option<BufferIndex> {
    let buffers = region.members.iter().filter_map(|member| facts.allocations[member.tensor as usize]);
    let mut buffers = buffers.map(|allocation| allocation.buffer);
    let first = buffers.next()?;
    buffers.all(|buffer| buffer == first).then_some(first)
}

/// Returns `true` if members read a tensor that is none, or a view of it.
fn is_read(facts: &Facts<'_>, region: &Region, id: TensorId) -> bool {
    let graph = &facts.draft.graph;
    region.members.iter().any(|member| graph.sources(member.tensor).iter().any(|&source| graph.root(source) == id))
}

/// Returns the most live bytes of internal tensors while nothing but the region runs.
fn divided(facts: &Facts<'_>, region: &Region, buffer: BufferIndex) -> Bytes {
    let steps: Vec<Step> = region.members.iter().filter_map(|member| facts.steps[member.tensor as usize]).collect();
    let internal = region.internal.iter().filter_map(|&tensor| facts.model.value_of[tensor as usize]);
    let part = facts.model.part(&steps, &internal.collect::<Vec<_>>());
    let steps: Vec<Step> = (0..).take(steps.len()).collect();
    peaks_of(&mut Run::new(&part), &steps)[buffer as usize]
}
