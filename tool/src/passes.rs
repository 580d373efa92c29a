//! Options of the passes that make plans smaller: another order, recomputation and tiling.

use std::str::FromStr;

use lastuse::graph::BufferSpec;
use lastuse::graph::order::{ReorderEffort, Reordering};
use lastuse::graph::recompute::{Recomputation, RecomputeEffort};
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::tiling::{TiledGraph, TilingEffort, TilingLimits};
use lastuse::placement::Bytes;

use crate::output::Progress;
use crate::report::parse_size;
use crate::usage::at_least_one;

/// Parses a number of bytes, for an option.
pub fn size_option(text: &str) -> Result<Bytes, String> {
    parse_size(text)
        .ok_or_else(|| format!("{text:?} is not a size: give bytes below 2^64, such as 53000000, 512M, 1.5GiB or 2GB"))
}

/// The bytes that a plan may need.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Budget {
    Bytes(Bytes),
    /// Hundredths of the bytes of the plan for the given graph.
    Percent(f64),
    Smallest,
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a budget: give bytes (53000000, 512M), a part (40%), or min");
        if text == "min" {
            return Ok(Self::Smallest);
        }
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.parse().map_err(|_| wrong())?;
            return if percent.is_finite() && percent >= 0.0 { Ok(Self::Percent(percent)) } else { Err(wrong()) };
        }
        parse_size(text).map(Self::Bytes).ok_or_else(wrong)
    }
}

impl Budget {
    /// Returns the bytes for a graph.
    fn of_plan(self, snapshot: &Snapshot, buffers: &[BufferSpec]) -> Result<Bytes, String> {
        let given = snapshot.plan_in(buffers).map_err(|error| error.to_string())?;
        Ok(self.bytes(given.bytes()))
    }

    /// Returns the bytes; `given` are those of the plan for the given graph.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a part")]
    fn bytes(self, given: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (given as f64 * percent / 100.0) as Bytes,
            Self::Smallest => 0,
        }
    }
}

/// Options for the order of the nodes.
#[derive(clap::Args)]
#[group(skip)]
pub struct ReorderOptions {
    /// Plan the nodes in an order with a lower peak, if one is found.
    ///
    /// Nodes that read or write the same memory keep their order, so the results stay the same. The table then has the
    /// lower bound of the given order too, and the JSON the ids of the nodes in the order in which to run them.
    #[arg(long)]
    reorder: bool,

    /// The work limit of --reorder, in nodes inspected: a million takes some hundredths of a second.
    #[arg(long, value_name = "NODES", requires = "reorder", default_value_t = ReorderEffort::default().0)]
    reorder_effort: u64,
}

impl ReorderOptions {
    /// Returns `true` if an order is asked for.
    pub fn is_set(&self) -> bool {
        self.reorder
    }

    /// Reorders the graph if the option is set; `buffers` are used for each plan.
    pub fn apply(&self, snapshot: &mut Snapshot, buffers: &[BufferSpec]) -> Result<Option<Reordering>, String> {
        let reordering = self.reorder.then(|| snapshot.reorder(buffers, ReorderEffort(self.reorder_effort)));
        reordering.transpose().map_err(|error| error.to_string())
    }
}

/// Options for recomputation.
#[derive(clap::Args)]
#[group(skip)]
pub struct RecomputeOptions {
    /// For training graphs: compute forward results again in the backward pass, so that the plan fits this many bytes
    ///
    /// A number of bytes, with K, M or G for binary units ("512M"); a part of the plan for the given graph ("40%"); or
    /// "min" for the smallest graph that is found. The least work that fits is searched for.
    #[arg(long, value_name = "BUDGET")]
    recompute: Option<Budget>,

    /// The work limit of --recompute, in nodes simulated: a million takes some hundredths of a second.
    #[arg(long, value_name = "NODES", requires = "recompute", default_value_t = RecomputeEffort::default().0)]
    recompute_effort: u64,
}

impl RecomputeOptions {
    /// Returns `true` if the option is set.
    pub fn is_set(&self) -> bool {
        self.recompute.is_some()
    }

    /// Replaces the graph by one that fits the budget, if the option is set.
    ///
    /// # Errors
    /// The graph cannot be recomputed, or no graph was found that fits the budget.
    pub fn apply(
        &self,
        snapshot: &mut Snapshot,
        buffers: &[BufferSpec],
        progress: &Progress,
    ) -> Result<Option<Recomputation>, String> {
        let Some(budget) = self.recompute else { return Ok(None) };
        progress.set("searching for what to compute again");
        let bytes = budget.of_plan(snapshot, buffers)?;
        let effort = RecomputeEffort(self.recompute_effort);
        let found = snapshot.recompute(buffers, bytes, effort, &mut |_| true).map_err(|error| error.to_string())?;
        if found.after.bytes > bytes && budget != Budget::Smallest {
            return Err(format!(
                "no graph was found that fits {bytes} bytes: the smallest needs {smallest}; use --recompute {smallest}, \
                 or a larger --recompute-effort",
                smallest = found.after.bytes
            ));
        }
        let again = found.again().count();
        snapshot.label.push_str(&format!(", {again} nodes computed again to fit {} bytes", found.after.bytes));
        Ok(Some(found))
    }
}

/// Options for computation in tiles.
#[derive(clap::Args)]
#[group(skip)]
pub struct TilingOptions {
    /// Compute large intermediates in tiles, so that the plan fits this many bytes
    ///
    /// A number of bytes, with K, M or G for binary units ("700M"); a part of the plan for the given graph ("40%"); or "min"
    /// for the smallest graph that is found. Tensors are tiled no finer than needed.
    #[arg(long, value_name = "BUDGET")]
    tile: Option<Budget>,

    /// The threads that each tile of --tile is to keep busy.
    #[arg(long, value_name = "THREADS", requires = "tile", default_value_t = TilingLimits::THREADS, value_parser = at_least_one)]
    tile_threads: u32,

    /// The work limit of --tile, in nodes looked at: a million takes some tenths of a second.
    #[arg(long, value_name = "NODES", requires = "tile", default_value_t = TilingEffort::default().0)]
    tile_effort: u64,
}

impl TilingOptions {
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
        let bytes = budget.of_plan(snapshot, buffers)?;
        let effort = TilingEffort(self.tile_effort);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_bytes_parts_or_the_smallest() {
        let budgets = ["53000000", "512M", "1GiB", "3K", "40%", "min"].map(|text| text.parse::<Budget>());
        let expected = [
            Budget::Bytes(53_000_000),
            Budget::Bytes(512 << 20),
            Budget::Bytes(1 << 30),
            Budget::Bytes(3 << 10),
            Budget::Percent(40.0),
            Budget::Smallest,
        ];
        assert_eq!(budgets, expected.map(Ok));
        assert_eq!(Budget::Percent(40.0).bytes(1000), 400);
    }

    #[test]
    fn sizes_are_taken_as_people_write_them() {
        let sizes = ["1.5GiB", "800M", "24G", "2GB", "0"].map(size_option);
        assert_eq!(sizes, [3 << 29, 800 << 20, 24 << 30, 2_000_000_000, 0].map(Ok));
        assert!(size_option("2 GiB").is_err_and(|why| why.contains("such as 53000000, 512M, 1.5GiB or 2GB")));
    }

    #[test]
    fn malformed_budgets_are_refused_by_name() {
        for text in ["", "much", "-5", "40 %%", "nan%", "-1%", "99999999999999999999", "99999999999T"] {
            let message = text.parse::<Budget>().expect_err("no budget");
            assert!(message.starts_with(&format!("{text:?} is not a budget")), "{message}");
        }
    }
}
