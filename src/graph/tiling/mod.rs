//! A pass to a graph that fits a budget: large intermediates are computed in tiles. Uses the graph, `access`,
//! `live_ranges`, `live_bytes`, `plan` and `order`.
//!
//! ```text
//!   given:  a ---> LARGE ---> b            LARGE is live as a whole
//!
//!   new:    memory of b (op NONE)
//!           a[0..2] -> tile 1 of 4 -> memory of b[0..2]
//!           a[2..4] -> tile 2 of 4 -> memory of b[2..4]     one tile of LARGE is live at a time
//!           ...
//!           b: a view of the memory, after all tiles
//! ```
//!
//! A region is a set of nodes with one dimension each, along which they are tiled: a range of the elements of a result
//! needs only such ranges of those sources that are in the region. Tensors that only nodes of the region use are small
//! then; those that others use too, the outputs of the region, stay whole, and the tiles write views of them.
//!
//! ```text
//!  graph -> Draft       (the graph so far, with facts about each tensor: TileKind is how it can be tiled)
//!        -> Facts       (who uses what, the memory profile)
//!        -> Region      (grown around large tensors at a peak; operations has the needs of a tile)
//!             Place     (before and after which other nodes the tiles run)
//!             estimate  (the live bytes of a region in tiles, and the time that tiles add)
//!        -> rewrite     (the draft with regions tiled)
//!        -> Search      (again until the memory profile fits)
//!        -> tile        (compares plans with the budget)
//! ```
//!
//! All searching is counted in work, never in time: the same graph gives the same result, always.

mod slices;
mod operations;
mod views;
mod detach;
mod draft;
mod facts;
mod region;
mod growth;
mod tiles;
mod rewrite;
mod estimate;
mod candidates;
mod search;
mod pass;
#[cfg(test)]
mod tests;

pub use detach::detached;
pub use draft::TileableGraph;
pub use draft::{Draft, Known, Origin, Role, TileNumber};
pub use operations::{TileKernels, TileKind, Window};
pub use pass::{TiledGraph, TilingEffort, TilingLimits, tile};
