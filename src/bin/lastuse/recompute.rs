//! `--recompute`: graphs that compute forward results again instead of keeping them.

use lastuse::graph::BufferSpec;
use lastuse::graph::recompute::{Recomputation, RecomputeEffort};
use lastuse::graph::snapshot::Snapshot;

use super::budget::Budget;
use super::progress::Progress;

/// Options for recomputation.
#[derive(clap::Args)]
#[group(skip)]
pub struct Options {
    /// For training graphs: compute forward results again in the backward pass, so that the plan fits this many bytes
    ///
    /// A number of bytes, with K, M or G for binary units ("512M"); a part of the plan for the given graph ("40%"); or
    /// "min" for the smallest graph that is found. The least work that fits is searched for. The table then has the nodes
    /// that run again, and the floating-point operations in relation to the given graph; ggml-alloc's bytes stay those
    /// of the given graph.
    #[arg(long, value_name = "BUDGET")]
    recompute: Option<Budget>,

    /// The work limit of --recompute, in nodes simulated: a million takes some hundredths of a second.
    #[arg(long, value_name = "NODES", requires = "recompute", default_value_t = RecomputeEffort::default().0)]
    recompute_effort: u64,
}

impl Options {
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
        let given = snapshot.plan_in(buffers).map_err(|error| error.to_string())?;
        let bytes = budget.bytes(given.buffers.iter().map(|buffer| buffer.placement.size()).sum());
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
