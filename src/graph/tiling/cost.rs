//! The time that tiles add, as an estimate.
//!
//! Each tile runs each node of its region once more than the whole graph does: a kernel launch, or a barrier of the
//! threads. Sources that a node needs as a whole are read again for every tile, and converted again where a product
//! multiplies another type than it gets. Results are computed once. Effects of caches are not counted.

use super::facts::Facts;
use super::operations::{Need, TileKind, tiled};
use super::region::Region;
use super::slices::count;

/// Picoseconds that running one more node takes.
const NODE: u64 = 5_000_000;

/// Picoseconds to read a byte again.
const READ_BYTE: u64 = 50;

/// Picoseconds to convert a byte again.
const CONVERT_BYTE: u64 = 100;

/// The fewest elements of a tile of a result for each thread.
const ELEMENTS_PER_THREAD: u64 = 256;

/// Returns the time in picoseconds that one more tile of a region takes.
pub fn of_tile(facts: &Facts<'_>, region: &Region) -> u64 {
    let draft = facts.draft;
    let mut time = 0u64;
    for member in &region.members {
        let kind = draft.known[member.tensor as usize].kind;
        let Some(tiled) = tiled(&draft.graph, kind, member.tensor, member.dimension) else { continue };
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
pub fn fewest_units(facts: &Facts<'_>, region: &Region, units: i64, threads: u32) -> i64 {
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
