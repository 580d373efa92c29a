//! `--split`: graphs that compute large intermediates in parts.

use lastuse::graph::BufferSpec;
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::split::{SplitEffort, SplitLimits, Splitting};

use super::budget::Budget;
use super::progress::Progress;

/// Options for computation in parts.
#[derive(clap::Args)]
#[group(skip)]
pub struct Options {
    /// Compute large intermediates in parts, so that the plan fits this many bytes
    ///
    /// A number of bytes, with K, M or G for binary units ("700M"); a part of the plan for the given graph ("40%"); or "min"
    /// for the smallest graph that is found. Tensors are cut no finer than needed. The table then has the number of tensors
    /// that are computed in parts, the parts of the one with the most, and the nodes that the graph has more; ggml-alloc's
    /// bytes stay those of the given graph.
    #[arg(long, value_name = "BUDGET")]
    split: Option<Budget>,

    /// The threads that each part of --split is to keep busy.
    #[arg(long, value_name = "THREADS", requires = "split", default_value_t = SplitLimits::THREADS)]
    split_threads: u32,

    /// The work limit of --split, in nodes looked at: a million takes some tenths of a second.
    #[arg(long, value_name = "NODES", requires = "split", default_value_t = SplitEffort::default().0)]
    split_effort: u64,
}

impl Options {
    /// Returns `true` if the option is set.
    pub fn is_set(&self) -> bool {
        self.split.is_some()
    }

    /// Replaces the graph by one that fits the budget, if the option is set.
    ///
    /// # Errors
    /// The graph cannot be cut, or no graph was found that fits the budget.
    pub fn apply(
        &self,
        snapshot: &mut Snapshot,
        buffers: &[BufferSpec],
        progress: &Progress,
    ) -> Result<Option<Splitting>, String> {
        let Some(budget) = self.split else { return Ok(None) };
        progress.set("searching for what to compute in parts");
        let given = snapshot.plan_in(buffers).map_err(|error| error.to_string())?;
        let bytes = budget.bytes(given.buffers.iter().map(|buffer| buffer.placement.size()).sum());
        let effort = SplitEffort(self.split_effort);
        let limits = SplitLimits { budget: bytes, threads: self.split_threads, effort };
        let mut cut = snapshot.clone();
        let found = cut.split(buffers, limits, &mut |_| true).map_err(|error| error.to_string())?;
        if found.after > bytes && budget != Budget::Smallest {
            return Err(format!(
                "no graph was found that fits {bytes} bytes: the smallest needs {smallest}; use --split {smallest}, a \
                 larger --split-effort, or fewer --split-threads",
                smallest = found.after
            ));
        }
        *snapshot = cut;
        snapshot.label.push_str(&format!(", {} tensors in parts to fit {} bytes", found.splits.len(), found.after));
        Ok(Some(found))
    }
}
