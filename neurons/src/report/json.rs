//! A division as JSON.

use serde::Serialize;

use crate::Bytes;

use super::rows::{DivisionBudget, DivisionReport, DivisionRow};

#[derive(Serialize)]
struct DivisionDocument<'r> {
    format: &'static str,
    version: u64,
    granule: u32,
    budget: BudgetEntry,
    neuron_bytes: Option<Bytes>,
    /// No division covers more.
    hotness_bound: f64,
    total: Counts,
    layers: Vec<LayerEntry<'r>>,
}

#[derive(Serialize)]
struct BudgetEntry {
    neurons: Option<u64>,
    bytes: Option<Bytes>,
    powerinfer: bool,
}

#[derive(Serialize)]
struct LayerEntry<'r> {
    layer: usize,
    file: &'r str,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Serialize)]
struct Counts {
    neurons: u64,
    on_gpu: u64,
    bytes: Option<Bytes>,
    hotness: f64,
    hotness_on_gpu: f64,
    coverage: Option<f64>,
}

impl Counts {
    fn of(row: &DivisionRow) -> Self {
        let &DivisionRow { neurons, on_gpu, bytes, covered, total, .. } = row;
        Self { neurons, on_gpu, bytes, hotness: total, hotness_on_gpu: covered, coverage: row.coverage() }
    }
}

/// Serializes a division as one line of JSON, format "lastuse-split", version 1.
///
/// # Errors
/// None is known: the data is plain.
pub fn division_json(report: &DivisionReport) -> serde_json::Result<String> {
    fn layer((layer, row): (usize, &DivisionRow)) -> LayerEntry<'_> {
        LayerEntry { layer, file: &row.file, counts: Counts::of(row) }
    }
    serde_json::to_string(&DivisionDocument {
        format: "lastuse-split",
        version: 1,
        granule: report.granule,
        budget: match report.budget {
            DivisionBudget::Neurons(neurons) => BudgetEntry { neurons: Some(neurons), bytes: None, powerinfer: false },
            DivisionBudget::Bytes(bytes) => BudgetEntry { neurons: None, bytes: Some(bytes), powerinfer: false },
            DivisionBudget::PowerInfer { bytes, neurons } => {
                BudgetEntry { neurons: Some(neurons), bytes: Some(bytes), powerinfer: true }
            }
        },
        neuron_bytes: report.neuron_bytes,
        hotness_bound: report.bound,
        total: Counts::of(&report.sum()),
        layers: report.rows.iter().enumerate().map(layer).collect(),
    })
}
