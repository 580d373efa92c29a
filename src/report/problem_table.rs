//! The table of placed problems, one per line.

use std::fmt::Write;

use crate::placement::Bytes;

use super::verdict::Verdict;

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
