//! The tables of planned graphs and of placed problems, one per line.

use std::fmt::{self, Write};

use lastuse::placement::Bytes;

use crate::report::table::Table;

use super::sizes::as_float;

/// The outcome of a search for a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The placement is proven to be the smallest.
    Optimal,
    /// The smallest placement that was found; a smaller one may exist.
    NotProven,
    /// The placement fits the capacity.
    Fits,
    /// It is proven that no placement fits the capacity.
    Infeasible,
    /// The effort was spent before a placement was found.
    NotFound,
}

impl Verdict {
    /// Returns the outcome of a search for the smallest placement.
    pub fn of_smallest(is_optimal: bool) -> Self {
        if is_optimal { Self::Optimal } else { Self::NotProven }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Optimal => "optimal: proven",
            Self::NotProven => "smallest found, not proven",
            Self::Fits => "fits",
            Self::Infeasible => "infeasible: proven",
            Self::NotFound => "not found within the effort, not proven",
        })
    }
}

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

impl RecomputedRow {
    /// Returns the floating-point operations in relation to the given graph.
    fn work(&self) -> f64 {
        as_float(self.work_after) / as_float(self.work_before.max(1))
    }
}

impl PlanRow {
    fn ratio(&self) -> Option<f64> {
        self.ggml_alloc.filter(|&bytes| bytes > 0).map(|bytes| as_float(self.bytes) / as_float(bytes))
    }
}

/// Formats the rows as an aligned table, followed by a summary if there are several. The bound of the given order, the
/// results computed again or in tiles, and the outcome have columns if a row has them.
pub fn plan_table(rows: &[PlanRow]) -> String {
    let or_empty = |text: Option<String>| text.unwrap_or_default();
    let mut table = Table::<PlanRow>::new()
        .texts("file", 4, |row| row.file.clone())
        .numbers("nodes", 6, |row| row.nodes.to_string())
        .numbers("blocks", 6, |row| row.blocks.to_string())
        .numbers("ggml-alloc", 14, |row| row.ggml_alloc.map_or("unknown".to_owned(), |bytes| bytes.to_string()))
        .numbers("lastuse", 14, |row| row.bytes.to_string());
    if rows.iter().any(|row| row.given_bound.is_some()) {
        table = table.numbers("given bound", 14, |row| or_empty(row.given_bound.map(|bytes| bytes.to_string())));
    }
    table = table.numbers("lower bound", 14, |row| row.lower_bound.to_string());
    table = table.numbers("ratio", 6, |row| or_empty(row.ratio().map(|ratio| format!("{ratio:.3}"))));
    if rows.iter().any(|row| row.recomputed.is_some()) {
        table = table.numbers("again", 6, |row| or_empty(row.recomputed.map(|again| again.nodes.to_string())));
        table = table.numbers("work", 6, |row| or_empty(row.recomputed.map(|again| format!("{:.4}", again.work()))));
    }
    if rows.iter().any(|row| row.tiling.is_some()) {
        table = table.numbers("whole", 14, |row| or_empty(row.tiling.map(|tiling| tiling.before.to_string())));
        table = table.numbers("tiled", 5, |row| or_empty(row.tiling.map(|tiling| tiling.tensors.to_string())));
        table = table.numbers("tiles", 5, |row| or_empty(row.tiling.map(|tiling| tiling.parts.to_string())));
        table = table.numbers("added", 6, |row| or_empty(row.tiling.map(|tiling| tiling.added.to_string())));
    }
    table = table.numbers("us", 9, |row| format!("{:.1}", row.microseconds));
    if rows.iter().any(|row| row.verdict.is_some()) {
        table = table.texts("outcome", 0, |row| or_empty(row.verdict.map(|verdict| verdict.to_string())));
    }
    let table = table.text(rows);
    if rows.len() > 1 { table + &summary(rows) } else { table }
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

/// A problem and its placement.
#[derive(Clone, Debug)]
pub struct ProblemRow {
    /// The name of the file.
    pub file: String,
    /// The number of blocks.
    pub blocks: usize,
    /// The most bytes that the placement may need, if limited.
    pub capacity: Option<Bytes>,
    /// Bytes of the placement, if one was found.
    pub bytes: Option<Bytes>,
    /// No placement is smaller.
    pub lower_bound: Bytes,
    /// Time of the search.
    pub milliseconds: f64,
    /// The outcome.
    pub verdict: Verdict,
}

/// Formats the rows as an aligned table.
pub fn problem_table(rows: &[ProblemRow]) -> String {
    let number = |bytes: Option<Bytes>| bytes.map_or("-".to_owned(), |bytes| bytes.to_string());
    let table = Table::<ProblemRow>::new()
        .texts("file", 4, |row| row.file.clone())
        .numbers("blocks", 8, |row| row.blocks.to_string())
        .numbers("capacity", 14, |row| number(row.capacity))
        .numbers("lastuse", 14, |row| number(row.bytes))
        .numbers("lower bound", 14, |row| row.lower_bound.to_string())
        .numbers("ms", 10, |row| format!("{:.1}", row.milliseconds))
        .texts("outcome", 0, |row| row.verdict.to_string());
    table.text(rows)
}
