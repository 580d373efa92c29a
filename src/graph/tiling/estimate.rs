//! The live bytes while a region runs in tiles, and the time that tiles add, as estimates.
//!
//! Each tile runs each node of its region once more than the whole graph does: a kernel launch, or a barrier of the
//! threads. Sources that a node needs as a whole are read again for every tile, and converted again where a product
//! multiplies another type than it gets. Results are computed once. Effects of caches are not counted.

use crate::graph::live_bytes::{ValueId, peaks_of_part};
use crate::graph::{BufferIndex, TensorId};
use crate::placement::{BlockId, Bytes, Step};

use super::facts::DraftFacts;
use super::operations::{Need, TileKind};
use super::region::Region;
use super::slices::count;

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
pub fn live(facts: &DraftFacts<'_>, region: &Region) -> Option<Live> {
    let (buffer, steps) = (buffer_of(facts, region)?, region.steps(facts)?);
    let mut fixed = facts.profiles[buffer as usize].overlapping(steps);
    for block in blocks_of(facts, region) {
        let tensors = facts.in_block[buffer as usize].of(block);
        let outside = tensors.iter().filter(|id| region.member(**id).is_none() && is_read(facts, region, **id));
        let bytes = outside.map(|&id| facts.model().size(id)).max().unwrap_or(0);
        fixed =
            fixed.saturating_sub(facts.problems[buffer as usize].blocks()[block as usize].size).saturating_add(bytes);
    }
    let mut divided = divided(facts, region, buffer);
    for output in region.outputs(facts) {
        let size = facts.model().size(output.tensor);
        fixed = fixed.saturating_add(size);
        if Region::is_copied(facts, output)? {
            divided = divided.saturating_add(size);
        }
    }
    Some(Live { fixed, divided })
}

/// Returns the blocks of members, each once.
fn blocks_of(facts: &DraftFacts<'_>, region: &Region) -> Vec<BlockId> {
    let members = region.members.iter();
    let mut blocks: Vec<BlockId> =
        members.filter_map(|member| Some(facts.ranges.allocations[member.tensor as usize]?.block)).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

fn buffer_of(facts: &DraftFacts<'_>, region: &Region) -> Option<BufferIndex> {
    let buffers = region.members.iter().filter_map(|member| facts.ranges.allocations[member.tensor as usize]);
    let mut buffers = buffers.map(|allocation| allocation.buffer);
    let first = buffers.next()?;
    buffers.all(|buffer| buffer == first).then_some(first)
}

/// Returns `true` if members read a tensor that is none, or a view of it.
fn is_read(facts: &DraftFacts<'_>, region: &Region, id: TensorId) -> bool {
    let graph = &facts.draft.graph;
    region.members.iter().any(|member| graph.sources(member.tensor).iter().any(|&source| graph.root(source) == id))
}

/// Returns the most live bytes of internal tensors while nothing but the region runs.
fn divided(facts: &DraftFacts<'_>, region: &Region, buffer: BufferIndex) -> Bytes {
    let steps: Vec<Step> = region.members.iter().filter_map(|member| facts.steps[member.tensor as usize]).collect();
    let internal = region.internal.iter().filter_map(|&tensor| facts.model().value_of[tensor as usize]);
    peaks_of_part(facts.model(), &internal.collect::<Vec<ValueId>>(), &steps)[buffer as usize]
}

/// Picoseconds that running one more node takes.
const NODE: u64 = 5_000_000;

/// Picoseconds to read a byte again.
const READ_BYTE: u64 = 50;

/// Picoseconds to convert a byte again.
const CONVERT_BYTE: u64 = 100;

/// The fewest elements of a tile of a result for each thread.
const ELEMENTS_PER_THREAD: u64 = 256;

/// Returns the time in picoseconds that one more tile of a region takes.
pub fn cost_of_tile(facts: &DraftFacts<'_>, region: &Region) -> u64 {
    let draft = facts.draft;
    let mut time = 0u64;
    for member in &region.members {
        let kind = draft.known[member.tensor as usize].kind;
        let Some(tiled) = draft.tiled(member.tensor, member.dimension) else { continue };
        let sources = draft.graph.sources(member.tensor);
        time = time.saturating_add(NODE);
        for (slot, (&source, &need)) in sources.iter().zip(&*tiled.needs).enumerate() {
            let is_other_type = draft.graph.layout(source).element != draft.graph.layout(sources[0]).element;
            let is_converted = kind.is_product() && slot == 1 && is_other_type;
            if need == Need::Whole && kind.is_product() {
                let per_byte = READ_BYTE + if is_converted { CONVERT_BYTE } else { 0 };
                time = time.saturating_add(draft.known[source as usize].nbytes.saturating_mul(per_byte));
            }
        }
    }
    time
}

/// Returns the fewest units of a tile that keep `threads` threads busy in each node.
pub fn fewest_units(facts: &DraftFacts<'_>, region: &Region, units: i64, threads: u32) -> i64 {
    let mut fewest = 1;
    let threads = u64::from(threads.max(1));
    for member in &region.members {
        let kind = facts.draft.known[member.tensor as usize].kind;
        if kind.is_view() {
            continue;
        }
        let ne = &facts.draft.graph.layout(member.tensor).ne;
        let elements = ne.iter().fold(1, |product: u64, &extent| product.saturating_mul(count(extent)));
        let units = count(units).max(1);
        // Threads share the blocks of a product and the channels of IM2COL; elsewhere they share rows.
        let by_rows = member.dimension > 0 && !(kind.is_product() || matches!(kind, TileKind::Im2col(_)));
        let rows = elements / count(ne[0]).max(1);
        let for_rows = if by_rows { (threads * units).div_ceil(rows.max(1)) } else { 1 };
        let for_elements = (threads * ELEMENTS_PER_THREAD).saturating_mul(units).div_ceil(elements.max(1));
        fewest = fewest.max(i64::try_from(for_rows.max(for_elements)).unwrap_or(i64::MAX));
    }
    fewest
}
