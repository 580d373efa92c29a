//! The live bytes while a region runs in tiles.

use crate::graph::{BufferIndex, TensorId};
use crate::placement::{BlockId, Bytes};

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
    let computed = computed(facts, region);
    let mut fixed = facts.overlapping[buffer as usize].bytes(steps);
    for block in blocks_of(facts, region) {
        let tensors = facts.in_block[buffer as usize].of(block);
        let outside = tensors.iter().filter(|id| region.member(**id).is_none() && is_read(facts, region, **id));
        let bytes = outside.map(|&id| facts.sizes[id as usize]).max().unwrap_or(0);
        fixed =
            fixed.saturating_sub(facts.problems[buffer as usize].blocks()[block as usize].size).saturating_add(bytes);
    }
    for output in region.outputs(facts) {
        fixed = fixed.saturating_add(facts.sizes[output.tensor as usize]);
    }
    Some(Live { fixed, divided: divided(facts, region, &computed) })
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

/// A node of a region that computes something: itself, and the last position at which a member reads it.
struct Computed {
    tensor: TensorId,
    position: usize,
    last_use: usize,
}

fn computed(facts: &Facts<'_>, region: &Region) -> Vec<Computed> {
    let graph = &facts.draft.graph;
    let mut found: Vec<Computed> = Vec::new();
    for (position, member) in region.members.iter().enumerate() {
        for &source in graph.sources(member.tensor) {
            let root = graph.root(source);
            if let Some(used) = found.iter_mut().find(|computed| computed.tensor == root) {
                used.last_use = position;
            }
        }
        if region.is_internal(member.tensor) {
            found.push(Computed { tensor: member.tensor, position, last_use: position });
        }
    }
    found
}

/// Returns the most live bytes of internal tensors, with results in place where the operations and rules allow it.
fn divided(facts: &Facts<'_>, region: &Region, computed: &[Computed]) -> Bytes {
    let (mut live, mut peak) = (0u64, 0u64);
    // By position in `computed`: the bytes that its block holds.
    let mut held = vec![0; computed.len()];
    for (position, member) in region.members.iter().enumerate() {
        if let Some(own) = computed.iter().position(|computed| computed.position == position) {
            let size = facts.sizes[member.tensor as usize];
            let in_place = in_place_source(facts, member.tensor, position, computed);
            held[own] = match in_place {
                Some(source) => std::mem::take(&mut held[source]),
                None => size,
            };
            if in_place.is_none() {
                live += size;
            }
        }
        peak = peak.max(live);
        for (bytes, _) in held.iter_mut().zip(computed).filter(|(_, computed)| computed.last_use == position) {
            live -= std::mem::take(bytes);
        }
    }
    peak
}

fn in_place_source(facts: &Facts<'_>, node: TensorId, position: usize, computed: &[Computed]) -> Option<usize> {
    let graph = &facts.draft.graph;
    let rules = facts.allocations[node as usize].map(|it| facts.buffers[it.buffer as usize].rules)?;
    let in_place = graph.tensor(node).in_place;
    graph.sources(node).iter().enumerate().find_map(|(slot, &source)| {
        let is_alike = graph.same_layout(source, node) && rules.allow(in_place, slot);
        let is_last = |it: &Computed| it.tensor == graph.root(source) && it.last_use == position;
        if is_alike { computed.iter().position(is_last) } else { None }
    })
}
