//! Placements of problems without a graph, a line each.

use std::fmt::{self, Write};

use crate::placement::Bytes;

/// What is known about a problem in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No placement is smaller.
    Optimal,
    /// The smallest that was found.
    NotProven,
    /// Within the capacity.
    Fits,
    /// There is no placement within the capacity.
    Infeasible,
    /// The effort was not enough to find out.
    NotFound,
}

impl Verdict {
    /// What is known of the smallest that was found.
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

/// One problem.
#[derive(Clone, Debug)]
pub struct ProblemRow {
    /// Where the problem comes from.
    pub file: String,
    /// How many blocks it has.
    pub blocks: usize,
    /// What the placement may take, where there is a limit.
    pub capacity: Option<Bytes>,
    /// What the placement takes, where there is one.
    pub bytes: Option<Bytes>,
    /// No placement is smaller.
    pub lower_bound: Bytes,
    /// Time to find the placement, or to give up.
    pub milliseconds: f64,
    /// What is known in the end.
    pub verdict: Verdict,
}

/// The rows as an aligned table.
pub fn problem_table(rows: &[ProblemRow]) -> String {
    let width = rows.iter().map(|row| row.file.chars().count()).max().unwrap_or(0).max(4);
    let mut table = format!(
        "{:width$}  {:>8}  {:>14}  {:>14}  {:>14}  {:>10}  {}\n",
        "file", "blocks", "capacity", "lastuse", "lower bound", "ms", "outcome"
    );
    for row in rows {
        let number = |bytes: Option<Bytes>| bytes.map_or("-".to_owned(), |bytes| bytes.to_string());
        let ProblemRow { file, blocks, lower_bound, milliseconds, verdict, .. } = row;
        let (capacity, bytes) = (number(row.capacity), number(row.bytes));
        let _ = writeln!(
            table,
            "{file:width$}  {blocks:>8}  {capacity:>14}  {bytes:>14}  {lower_bound:>14}  {milliseconds:>10.1}  {verdict}"
        );
    }
    table
}
