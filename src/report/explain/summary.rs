//! Explanations of several graphs as one table.

use std::fmt::Write;

use crate::placement::Bytes;
use crate::report::sizes::{as_float, mib};

use super::explanation::{BufferExplanation, Explanation};

/// Returns the bytes of all buffers of a graph.
pub fn planned_bytes(explanation: &Explanation) -> Bytes {
    explanation.buffers.iter().fold(0, |sum, buffer| sum.saturating_add(buffer.size))
}

/// Formats explanations, each with the name of its file, as a table in the given order: bytes, the kind of the largest
/// tensor at the peak of the largest buffer, and the bytes that the change that lowers that peak most would save.
pub fn explanation_summary(explained: &[(String, Explanation)]) -> String {
    let titles = ["MiB", "ggml-alloc", "ratio", "a change saves", "largest at the peak", "graph"].map(str::to_owned);
    let rows = explained.iter().map(|(file, explanation)| row(file, explanation));
    let lines: Vec<[String; 6]> = std::iter::once(titles).chain(rows).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(width);
    let mut text = String::new();
    for [bytes, ggml, ratio, saves, largest, graph] in &lines {
        let _ = writeln!(text, "{bytes:>a$}  {ggml:>b$}  {ratio:>c$}  {saves:>d$}  {largest:e$}  {graph}");
    }
    text
}

fn row(file: &str, explanation: &Explanation) -> [String; 6] {
    let bytes = planned_bytes(explanation);
    let buffers = || explanation.buffers.iter();
    let ggml: Option<Bytes> = buffers().try_fold(0, |sum: Bytes, buffer| sum.checked_add(buffer.ggml_alloc?));
    let ratio = ggml.filter(|&ggml| ggml > 0).map(|ggml| format!("{:.3}", as_float(bytes) / as_float(ggml)));
    let saves = buffers().filter_map(|buffer| buffer.advice.first()).map(|advice| advice.saves).max();
    let largest = buffers().max_by_key(|buffer| buffer.size).and_then(largest);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let graph = format!("{file}: {}, {} nodes", explanation.label.escape_debug(), explanation.nodes);
    [mib(bytes), or_dash(ggml.map(mib)), or_dash(ratio), or_dash(saves.map(mib)), or_dash(largest), graph]
}

/// Names the largest block that is live at the peak, by its first tensor.
fn largest(buffer: &BufferExplanation) -> Option<String> {
    let block = buffer.peak.as_ref()?.live.first()?;
    let tensor = block.tensors.first()?;
    Some(format!("{}, {}, {} MiB", tensor.tensor, tensor.shape, mib(block.bytes)))
}
