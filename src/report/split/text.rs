//! A split as a table.

use std::fmt::Write;

use crate::report::sizes::exact;

use super::rows::{SplitBudget, SplitReport, SplitRow};

/// Formats a split as a table with a line for each layer, and a summary.
pub fn split_text(report: &SplitReport) -> String {
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
    let _ = match report.budget {
        SplitBudget::Neurons(neurons) => writeln!(text, "{count} of {neurons} neurons allowed, in groups of {granule}"),
        SplitBudget::Bytes(bytes) => {
            writeln!(text, "{} of {} allowed, in groups of {granule} neurons", size(&sum), exact(bytes))
        }
        SplitBudget::PowerInfer { bytes, neurons } => writeln!(
            text,
            "{count} of {neurons} neurons that PowerInfer takes for {}; their true size: {}",
            exact(bytes),
            size(&sum)
        ),
    };
    if let Some(over) = report.over_budget() {
        let _ = writeln!(text, "PowerInfer's estimate is too small: this is {} over the budget", exact(over));
    }
    text
}

fn line(text: &mut String, layer: &str, row: &SplitRow) {
    let bytes = row.bytes.map_or("unknown".to_owned(), |bytes| bytes.to_string());
    let coverage = row.coverage().map_or("-".to_owned(), |coverage| format!("{:.2} %", 100.0 * coverage));
    let part = format!("{:.1} %", 100.0 * row.part());
    let _ = writeln!(text, "{layer:>5}  {:>9}  {:>9}  {part:>7}  {bytes:>14}  {coverage:>8}", row.neurons, row.on_gpu);
}

fn size(sum: &SplitRow) -> String {
    sum.bytes.map_or("unknown".to_owned(), exact)
}
