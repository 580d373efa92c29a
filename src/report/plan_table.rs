//! The table of planned graphs, one per line.

use std::fmt::Write;

use crate::placement::Bytes;

use super::sizes::as_float;
use super::verdict::Verdict;

/// A planned graph; the bytes are sums over its buffers.
#[derive(Clone, Debug)]
pub struct PlanRow {
    /// The name of the file.
    pub file: String,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of blocks.
    pub blocks: usize,
    /// Bytes that ggml-alloc needs, if known.
    pub ggml_alloc: Option<Bytes>,
    /// Bytes of the plan.
    pub bytes: Bytes,
    /// The lower bound of the given order of the nodes, if they were reordered.
    pub given_bound: Option<Bytes>,
    /// No plan with the same live ranges is smaller.
    pub lower_bound: Bytes,
    /// The results computed again, if it was recomputed.
    pub recomputed: Option<RecomputedRow>,
    /// The results computed in tiles, if large intermediates were cut.
    pub tiling: Option<TilingRow>,
    /// Time to plan, in microseconds.
    pub microseconds: f64,
    /// The outcome of the search, if an effort was given.
    pub verdict: Option<Verdict>,
}

/// The results that a recomputed graph computes again.
#[derive(Clone, Copy, Debug)]
pub struct RecomputedRow {
    /// The number of nodes that run again.
    pub nodes: usize,
    /// Floating-point operations of the given graph.
    pub work_before: u64,
    /// Floating-point operations of the new graph.
    pub work_after: u64,
}

/// The results that a cut graph computes in tiles.
#[derive(Clone, Copy, Debug)]
pub struct TilingRow {
    /// Bytes of the plan of the given graph.
    pub before: Bytes,
    /// The number of tensors that are computed in tiles.
    pub tensors: usize,
    /// The parts of the tensor with the most.
    pub parts: u32,
    /// How many nodes the graph has more.
    pub added: usize,
}

impl TilingRow {
    fn text(&self) -> String {
        let Self { before, tensors, parts, added } = self;
        format!("  {before:>14}  {tensors:>5}  {parts:>5}  {added:>6}")
    }
}

impl RecomputedRow {
    fn text(&self) -> String {
        format!("  {:>6}  {:>6.4}", self.nodes, as_float(self.work_after) / as_float(self.work_before.max(1)))
    }
}

impl PlanRow {
    fn ratio(&self) -> Option<f64> {
        self.ggml_alloc.filter(|&bytes| bytes > 0).map(|bytes| as_float(self.bytes) / as_float(bytes))
    }
}

/// Formats the rows as an aligned table, followed by a summary if there are several. The bound of the given order, the
/// results computed again and the outcome have columns if a row has them.
pub fn plan_table(rows: &[PlanRow]) -> String {
    let width = rows.iter().map(|row| row.file.chars().count()).max().unwrap_or(0).max(4);
    let reordered = rows.iter().any(|row| row.given_bound.is_some());
    let given_title = if reordered { format!("  {:>14}", "given bound") } else { String::new() };
    let recomputed = rows.iter().any(|row| row.recomputed.is_some());
    let again_title = if recomputed { format!("  {:>6}  {:>6}", "again", "work") } else { String::new() };
    let tiling = rows.iter().any(|row| row.tiling.is_some());
    let parts_title = if tiling {
        format!("  {:>14}  {:>5}  {:>5}  {:>6}", "whole", "tiled", "tiles", "added")
    } else {
        String::new()
    };
    let outcome_title = if rows.iter().any(|row| row.verdict.is_some()) { "  outcome" } else { "" };
    let mut table = format!(
        "{:width$}  {:>6}  {:>6}  {:>14}  {:>14}{given_title}  {:>14}  {:>6}{again_title}{parts_title}  {:>9}{outcome_title}\n",
        "file", "nodes", "blocks", "ggml-alloc", "lastuse", "lower bound", "ratio", "us"
    );
    for row in rows {
        let known = row.ggml_alloc.map_or("unknown".to_owned(), |bytes| bytes.to_string());
        let ratio = row.ratio().map_or(String::new(), |ratio| format!("{ratio:.3}"));
        let given = row.given_bound.map_or(String::new(), |bytes| format!("  {bytes:>14}"));
        let again = row.recomputed.map_or(String::new(), |recomputed| recomputed.text());
        let parts = row.tiling.map_or(String::new(), |tiled| tiled.text());
        let outcome = row.verdict.map_or(String::new(), |verdict| format!("  {verdict}"));
        let PlanRow { file, nodes, blocks, bytes, lower_bound, microseconds, .. } = row;
        let _ = writeln!(
            table,
            "{file:width$}  {nodes:>6}  {blocks:>6}  {known:>14}  {bytes:>14}{given}  {lower_bound:>14}  {ratio:>6}{again}{parts}  {microseconds:>9.1}{outcome}"
        );
    }
    if rows.len() > 1 {
        table.push_str(&summary(rows));
    }
    table
}

fn summary(rows: &[PlanRow]) -> String {
    let at_bound = rows.iter().filter(|row| row.bytes == row.lower_bound).count();
    let mut text = format!("{} graphs, {at_bound} at the lower bound", rows.len());
    let lowered = rows.iter().filter(|row| row.given_bound.is_some_and(|bound| row.lower_bound < bound)).count();
    if rows.iter().any(|row| row.given_bound.is_some()) {
        let _ = write!(text, "; {lowered} in a better order");
    }
    if rows.iter().any(|row| row.verdict.is_some()) {
        let proven = rows.iter().filter(|row| row.verdict == Some(Verdict::Optimal)).count();
        let _ = write!(text, "; {proven} proven to be optimal");
    }
    let ratios: Vec<f64> = rows.iter().filter_map(PlanRow::ratio).collect();
    if !ratios.is_empty() {
        let _ = write!(text, "; lastuse / ggml-alloc: geometric mean {:.4}", geometric_mean(&ratios));
        let worst = ratios.iter().copied().fold(f64::MIN, f64::max);
        let _ = write!(text, ", largest {worst:.4}");
    }
    text + "\n"
}

fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / as_float(ratios.len() as u64)).exp()
}
