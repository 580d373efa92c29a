//! Explanations of several graphs as one table, and an explanation as JSON: the format "lastuse-explanation", version 1.

use lastuse::placement::Bytes;
use lastuse::report::explain::{BufferExplanation, Explanation};
use serde::Serialize;

use crate::report::sizes::{as_float, mib};
use crate::report::table::Table;

#[derive(Serialize)]
struct ExplanationDocument<'a> {
    format: &'static str,
    version: u64,
    #[serde(flatten)]
    explanation: &'a Explanation,
}

/// Serializes an explanation as one line of JSON; sizes in bytes, steps counted from 0.
///
/// # Errors
/// None is known: the data is plain.
pub fn explanation_json(explanation: &Explanation) -> serde_json::Result<String> {
    serde_json::to_string(&ExplanationDocument { format: "lastuse-explanation", version: 1, explanation })
}

/// Returns the bytes of all buffers of a graph.
pub fn planned_bytes(explanation: &Explanation) -> Bytes {
    explanation.buffers.iter().fold(0, |sum, buffer| sum.saturating_add(buffer.size))
}

/// Formats explanations, each with the name of its file, as a table in the given order: bytes, the kind of the largest
/// tensor at the peak of the largest buffer, and the bytes that the change that lowers that peak most would save.
pub fn explanation_summary(explained: &[(String, Explanation)]) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let ratio = |it: &Explanation| {
        let ggml = ggml_bytes(it).filter(|&ggml| ggml > 0)?;
        Some(format!("{:.3}", as_float(planned_bytes(it)) / as_float(ggml)))
    };
    let saves = |it: &Explanation| it.buffers.iter().filter_map(|it| it.advice.first()).map(|it| it.saves).max();
    let at_peak = |it: &Explanation| it.buffers.iter().max_by_key(|buffer| buffer.size).and_then(largest);
    let table = Table::<(String, Explanation)>::new()
        .numbers("MiB", 0, |(_, it)| mib(planned_bytes(it)))
        .numbers("ggml-alloc", 0, |(_, it)| or_dash(ggml_bytes(it).map(mib)))
        .numbers("ratio", 0, |(_, it)| or_dash(ratio(it)))
        .numbers("a change saves", 0, |(_, it)| or_dash(saves(it).map(mib)))
        .texts("largest at the peak", 0, |(_, it)| or_dash(at_peak(it)))
        .texts("graph", 0, |(file, it)| format!("{file}: {}, {} nodes", it.label.escape_debug(), it.nodes));
    table.text(explained)
}

/// Returns the bytes that ggml-alloc needs for all buffers, if known.
fn ggml_bytes(explanation: &Explanation) -> Option<Bytes> {
    explanation.buffers.iter().try_fold(0, |sum: Bytes, buffer| sum.checked_add(buffer.ggml_alloc?))
}

/// Names the largest block that is live at the peak, by its first tensor.
fn largest(buffer: &BufferExplanation) -> Option<String> {
    let block = buffer.peak.as_ref()?.live.first()?;
    let tensor = block.tensors.first()?;
    Some(format!("{}, {}, {} MiB", tensor.tensor, tensor.shape, mib(block.bytes)))
}
