//! `--tile`: graphs that compute large intermediates in tiles.

use lastuse::graph::BufferSpec;
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::tiling::{TiledGraph, TilingEffort, TilingLimits};

use super::budget::Budget;
use super::progress::Progress;

/// Options for computation in tiles.
#[derive(clap::Args)]
#[group(skip)]
pub struct Options {
    /// Compute large intermediates in tiles, so that the plan fits this many bytes
    ///
    /// A number of bytes, with K, M or G for binary units ("700M"); a part of the plan for the given graph ("40%"); or "min"
    /// for the smallest graph that is found. Tensors are tiled no finer than needed. The table then has the number of tensors
    /// that are computed in tiles, the tiles of the one with the most, and the nodes that the graph has more; ggml-alloc's
    /// bytes stay those of the given graph.
    #[arg(long, value_name = "BUDGET")]
    tile: Option<Budget>,

    /// The threads that each tile of --tile is to keep busy.
    #[arg(long, value_name = "THREADS", requires = "tile", default_value_t = TilingLimits::THREADS)]
    tile_threads: u32,

    /// The work limit of --tile, in nodes looked at: a million takes some tenths of a second.
    #[arg(long, value_name = "NODES", requires = "tile", default_value_t = TilingEffort::default().0)]
    tiling_effort: u64,
}

impl Options {
    /// Returns `true` if the option is set.
    pub fn is_set(&self) -> bool {
        self.tile.is_some()
    }

    /// Replaces the graph by one that fits the budget, if the option is set.
    ///
    /// # Errors
    /// The graph cannot be tiled, or no graph was found that fits the budget.
    pub fn apply(
        &self,
        snapshot: &mut Snapshot,
        buffers: &[BufferSpec],
        progress: &Progress,
    ) -> Result<Option<TiledGraph>, String> {
        let Some(budget) = self.tile else { return Ok(None) };
        progress.set("searching for what to compute in tiles");
        let given = snapshot.plan_in(buffers).map_err(|error| error.to_string())?;
        let bytes = budget.bytes(given.buffers.iter().map(|buffer| buffer.placement.size()).sum());
        let effort = TilingEffort(self.tiling_effort);
        let limits = TilingLimits { budget: bytes, threads: self.tile_threads, effort };
        let mut tiled = snapshot.clone();
        let found = tiled.tile(buffers, limits, &mut |_| true).map_err(|error| error.to_string())?;
        if found.after > bytes && budget != Budget::Smallest {
            return Err(format!(
                "no graph was found that fits {bytes} bytes: the smallest needs {smallest}; use --tile {smallest}, a \
                 larger --tile-effort, or fewer --tile-threads",
                smallest = found.after
            ));
        }
        *snapshot = tiled;
        snapshot.label.push_str(&format!(", {} tensors in tiles to fit {} bytes", found.tiled.len(), found.after));
        Ok(Some(found))
    }
}
