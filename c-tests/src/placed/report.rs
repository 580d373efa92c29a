//! Planned and requested bytes, as tables.

use std::fmt::Write;

use super::head::HeadOnHost;
use super::promise::Promised;
use super::sweep::{PlacedCase, PlacedRow};
use crate::aligned_table;

/// How many characters of arguments a table has.
const ARGUMENTS: usize = 60;

/// The results of several cases.
#[derive(Debug, Default)]
pub struct PlacedReport {
    text: String,
    wrong: Vec<String>,
    placements: usize,
}

impl PlacedReport {
    /// Adds the rows of a case.
    pub fn add(&mut self, case: &PlacedCase, rows: &[PlacedRow]) {
        let heading = ["budget", "weights", "caches", "compute", "promised", "asked for", "equal", "arguments"];
        let mut table = vec![heading.map(str::to_owned).to_vec()];
        for row in rows {
            self.wrong.extend(row.wrong.iter().map(|wrong| format!("{}, {:?} bytes: {wrong}", case.name, row.budgets)));
            self.placements += usize::from(row.promise.is_some());
            table.push(cells(row));
        }
        let _ = write!(self.text, "\n{}\n\n{}", case.name, aligned_table(&table, 0));
    }

    /// Adds the bytes that the output head on the host saves.
    pub fn add_head(&mut self, name: &str, found: &HeadOnHost) {
        self.wrong.extend(found.wrong.iter().map(|wrong| format!("{name}, output head on the host: {wrong}")));
        self.placements += 2;
        let HeadOnHost { head, with, without, .. } = found;
        let (all, on_host) = (with.weights + with.compute + with.kv, without.weights + without.compute + without.kv);
        let _ = write!(
            self.text,
            "\n{name}, output head of {head} bytes on the host: weights {} -> {}, compute buffer {} -> {}, in all {all} \
             -> {on_host} bytes\n",
            with.weights, without.weights, with.compute, without.compute
        );
    }

    /// Adds a mistake that no row has.
    pub fn add_wrong(&mut self, wrong: String) {
        self.wrong.push(wrong);
    }

    /// Returns all failed checks.
    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }

    /// Returns the tables, and a line that says whether all checks pass.
    pub fn text(&self) -> String {
        let mut text = self.text.clone();
        for wrong in &self.wrong {
            let _ = write!(text, "\ncheck failed: {wrong}");
        }
        let result = if self.wrong.is_empty() { "each is exactly what was asked for" } else { "some are wrong" };
        let _ = writeln!(text, "\n{} placements: {result}", self.placements);
        text
    }
}

/// Returns a row of the table; bytes of several devices are joined.
fn cells(row: &PlacedRow) -> Vec<String> {
    let joined = |numbers: Vec<u64>| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" + ");
    let mut cells = vec![joined(row.budgets.clone())];
    match &row.promise {
        Some(promise) => {
            let of = |bytes: fn(&Promised) -> u64| joined(promise.devices.iter().map(bytes).collect());
            cells.extend([of(|it| it.weights), of(|it| it.kv), of(|it| it.compute), of(|it| it.total)]);
            cells.extend([joined(row.asked.clone()), if row.wrong.is_empty() { "yes" } else { "NO" }.to_owned()]);
            cells.push(shortened(&promise.arguments.join(" ")));
        }
        None => cells.extend(["-", "-", "-", "none fits", "-", "-", ""].map(str::to_owned)),
    }
    cells
}

fn shortened(arguments: &str) -> String {
    match arguments.char_indices().nth(ARGUMENTS) {
        Some((end, _)) => format!("{}...", &arguments[..end]),
        None => arguments.to_owned(),
    }
}
