//! The search for a graph that fits a budget, as far as the live graph has room for nodes.

use crate::ggml::extensions::tiling::rewriter::nodes_needed;
use crate::graph::tiling::{NotTiled, Subject, TiledGraph, TilingLimits, tile};
use crate::graph::{BufferSpec, Requests, Sizes};
use crate::placement::Bytes;

/// How often the budget for which there is room is bisected.
const BISECTIONS: u32 = 8;

/// Returns a graph that fits the budget; if there is none, or it needs more than `capacity` nodes, the smallest graph that
/// is found.
///
/// # Errors
/// [`NotTiled`].
pub fn search(
    subject: Subject<'_>,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut dyn Sizes,
    (budget, capacity): (Bytes, usize),
) -> Result<TiledGraph, NotTiled> {
    let mut tiled = |budget| tile(subject, buffers, requests, sizes, TilingLimits::of(budget), &mut |_| true);
    let has_room = |found: &TiledGraph| !found.is_changed || nodes_needed(found) <= capacity;
    let found = tiled(budget)?;
    if has_room(&found) {
        return Ok(found);
    }
    // Larger budgets need fewer nodes.
    let (mut below, mut above) = (found.after.max(budget), found.before);
    let mut best = tiled(found.before)?;
    for _ in 0..BISECTIONS {
        let middle = below + above.saturating_sub(below) / 2;
        let found = tiled(middle)?;
        if has_room(&found) && found.after < best.after {
            above = found.after.min(middle);
            best = found;
        } else {
            below = middle;
        }
    }
    Ok(best)
}
