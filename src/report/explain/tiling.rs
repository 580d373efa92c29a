//! How much less a graph needs if its large intermediates are computed in tiles.

use std::fmt::{self, Write};

use crate::graph::tiling::{TilingEffort, TilingLimits};
use crate::placement::Bytes;
use crate::report::sizes::exact;

use super::case::Case;
use super::change::counted;
use super::named::Named;

/// The work limit of the search for tilings: some tenths of a second.
const EFFORT: TilingEffort = TilingEffort(1_000_000);

/// Savings below this part of the plan, in hundredths, are not worth the time of the tiles.
const MIN_SAVED: Bytes = 5;

/// The smallest graph that was found with large intermediates in tiles.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct Tiled {
    /// Bytes that it takes less than the plan, in all buffers.
    pub saves: Bytes,
    /// Bytes that it takes, in all buffers.
    pub size: Bytes,
    /// The largest tensor that is computed in tiles.
    #[cfg_attr(feature = "cli", serde(flatten))]
    pub tensor: Named,
    /// How many tiles it has.
    pub tiles: u32,
    /// How many other tensors are computed in tiles.
    pub others: usize,
}

/// Searches for the smallest graph with large intermediates in tiles. `None` if it takes hardly less, or no work is left.
pub fn tiled(case: &Case<'_>) -> Option<Tiled> {
    if !case.may_try(1) {
        return None;
    }
    let mut snapshot = case.planned.snapshot.clone();
    let limits = TilingLimits { effort: EFFORT, ..TilingLimits::of(0) };
    let found = snapshot.tile(case.planned.buffers, limits, &mut |_| true).ok()?;
    let largest = found.tiled.iter().max_by_key(|tiled| tiled.bytes[0])?;
    let saves = found.before.saturating_sub(found.after);
    let is_worth_it = u128::from(saves) * 100 >= u128::from(found.before) * u128::from(MIN_SAVED);
    is_worth_it.then(|| Tiled {
        saves,
        size: found.after,
        tensor: case.named(largest.tensor),
        tiles: largest.tiles,
        others: found.tiled.len() - 1,
    })
}

/// Writes the savings, and how to have them.
pub fn write_tiling(out: &mut String, tiled: &Tiled) -> fmt::Result {
    let Tiled { saves, size, tensor, tiles, others } = tiled;
    let tiles = counted(*tiles as usize, "tile", "tiles");
    let others = match others {
        0 => String::new(),
        1 => ", and another tensor".to_owned(),
        some => format!(", and {some} other tensors"),
    };
    writeln!(
        out,
        "\nWith {tensor} in {tiles}{others}, the graph needs {}, {} less, for some more time; a budget between decides how \
         much is tiled (lastuse plan --tile, lastuse_graph_tile)",
        exact(*size),
        exact(*saves)
    )
}
