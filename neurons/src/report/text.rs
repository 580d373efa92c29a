//! A division as a table.

use std::fmt::Write;

use crate::Bytes;

use super::rows::{DivisionBudget, DivisionReport, DivisionRow};

/// Formats a division as a table with a line for each layer, and a summary, in which `exact` formats sizes.
pub fn division_text(report: &DivisionReport, exact: fn(Bytes) -> String) -> String {
    let mut text = format!(
        "{:>5}  {:>9}  {:>9}  {:>7}  {:>14}  {:>8}\n",
        "layer", "neurons", "on GPU", "part", "bytes", "hotness"
    );
    for (layer, row) in report.rows.iter().enumerate() {
        line(&mut text, &layer.to_string(), row);
    }
    let sum = report.sum();
    line(&mut text, "all", &sum);
    let (count, granule) = (sum.on_gpu, report.granule);
    let size = sum.bytes.map_or("unknown".to_owned(), exact);
    let _ = match report.budget {
        DivisionBudget::Neurons(neurons) => {
            writeln!(text, "{count} of {neurons} neurons allowed, in groups of {granule}")
        }
        DivisionBudget::Bytes(bytes) => {
            writeln!(text, "{} of {} allowed, in groups of {granule} neurons", size, exact(bytes))
        }
        DivisionBudget::PowerInfer { bytes, neurons } => writeln!(
            text,
            "{count} of {neurons} neurons that PowerInfer takes for {}; their true size: {}",
            exact(bytes),
            size
        ),
    };
    if let Some(over) = report.over_budget() {
        let _ = writeln!(text, "PowerInfer's estimate is too small: this is {} over the budget", exact(over));
    }
    text
}

fn line(text: &mut String, layer: &str, row: &DivisionRow) {
    let bytes = row.bytes.map_or("unknown".to_owned(), |bytes| bytes.to_string());
    let coverage = row.coverage().map_or("-".to_owned(), |coverage| format!("{:.2} %", 100.0 * coverage));
    let part = format!("{:.1} %", 100.0 * row.part());
    let _ = writeln!(text, "{layer:>5}  {:>9}  {:>9}  {part:>7}  {bytes:>14}  {coverage:>8}", row.neurons, row.on_gpu);
}
