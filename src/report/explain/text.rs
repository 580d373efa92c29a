//! Explanations for people.

use std::fmt::{self, Write};

use crate::placement::{Bytes, Step};

use super::change::counted;
use super::sizes::{exact, human};
use super::{AliveBlock, AliveTensor, BufferExplanation, Explanation, Freed, Kept, Limit, Node, Peak, Reuse};

/// So many tensors are listed where nobody says how many.
pub const DEFAULT_TOP: usize = 20;

/// Of what was reused so many are told.
const MOST_REUSED: usize = 3;

/// So many runs of steps are told that are as high as the peak.
const MOST_RUNS: usize = 4;

/// The explanation in plain words. Of what is alive at each peak the `top` largest tensors are listed, and the rest is
/// summed up.
pub fn explanation_text(explanation: &Explanation, top: usize) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_explanation(&mut text, explanation, top);
    text
}

fn write_explanation(out: &mut String, explanation: &Explanation, top: usize) -> fmt::Result {
    let label = Some(explanation.label.escape_debug()).filter(|_| !explanation.label.is_empty());
    let nodes = counted(explanation.nodes, "node", "nodes");
    match label {
        Some(label) => writeln!(out, "{label}: {nodes}, steps counted from 0")?,
        None => writeln!(out, "{nodes}, steps counted from 0")?,
    }
    explanation.buffers.iter().try_for_each(|buffer| write_buffer(out, buffer, top))?;
    if explanation.all_tried {
        return Ok(());
    }
    writeln!(out, "\nThe graph is large, so not every change was tried: \"lastuse explain --trials\" raises the limit.")
}

fn write_buffer(out: &mut String, buffer: &BufferExplanation, top: usize) -> fmt::Result {
    let BufferExplanation { id, name, size, .. } = buffer;
    write!(out, "\nBuffer {id}, {}: {}", name.escape_debug(), exact(*size))?;
    write_ggml_alloc(out, buffer.ggml_alloc, *size)?;
    let Some(peak) = &buffer.peak else { return writeln!(out, "  Nothing is alive in it at any step.") };
    write_peak(out, peak)?;
    write_fragmentation(out, buffer)?;
    write_alive(out, peak, top)?;
    write_reuse(out, &buffer.reuse, buffer.lower_bound)?;
    write_advice(out, buffer, peak)
}

fn write_ggml_alloc(out: &mut String, ggml_alloc: Option<Bytes>, size: Bytes) -> fmt::Result {
    match ggml_alloc {
        None => writeln!(out),
        Some(bytes) if bytes == size => writeln!(out, "; ggml-alloc takes the same"),
        Some(bytes) => writeln!(out, "; ggml-alloc takes {}, {}", exact(bytes), difference(bytes, size)),
    }
}

/// How far `bytes` is from `size`, which is another number.
fn difference(bytes: Bytes, size: Bytes) -> String {
    let word = if bytes > size { "more" } else { "less" };
    if size == 0 {
        return word.to_owned();
    }
    let tenths = u128::from(bytes.abs_diff(size)) * 1000 / u128::from(size);
    format!("{}.{} % {word}", tenths / 10, tenths % 10)
}

fn write_peak(out: &mut String, peak: &Peak) -> fmt::Result {
    writeln!(out, "  The most is alive at {}: {}.", peak.node, exact(peak.bytes))?;
    if peak.as_high.is_empty() {
        return Ok(());
    }
    let steps: Step = peak.as_high.iter().map(|(first, last)| last - first + 1).sum();
    let run =
        |&(first, last): &(Step, Step)| if first == last { format!("{first}") } else { format!("{first} to {last}") };
    let runs: Vec<String> = peak.as_high.iter().take(MOST_RUNS).map(run).collect();
    let more = if peak.as_high.len() > MOST_RUNS { " and so on" } else { "" };
    let steps = counted(steps as usize, "other step", "other steps");
    writeln!(out, "  As much is alive at {steps}: {}{more}.", runs.join(", "))
}

fn write_fragmentation(out: &mut String, buffer: &BufferExplanation) -> fmt::Result {
    match buffer.fragmentation {
        0 => write!(out, "  Fragmentation: none, the plan is as large as what is alive")?,
        lost => {
            let proven = if buffer.optimal { ", and no placement has less, which is proven" } else { "" };
            write!(out, "  Fragmentation: {} beyond what is alive{proven}", exact(lost))?;
        }
    }
    if buffer.chunks > 1 { writeln!(out, ", in {} chunks.", buffer.chunks) } else { writeln!(out, ".") }
}

fn write_alive(out: &mut String, peak: &Peak, top: usize) -> fmt::Result {
    let mut listed = 0;
    let shown = peak.alive.iter().take_while(|block| {
        let is_shown = listed < top;
        listed += block.tensors.len().max(1);
        is_shown
    });
    let shown = shown.count();
    let (listed, rest) = peak.alive.split_at(shown);
    writeln!(out, "\n  Alive at that step, largest first:")?;
    let mut table = Table::default();
    listed.iter().for_each(|block| table.add(block, peak.bytes));
    if !rest.is_empty() {
        let bytes = rest.iter().map(|block| block.bytes).sum();
        let tensors = rest.iter().map(|block| block.tensors.len().max(1)).sum();
        table.add_rest(bytes, peak.bytes, counted(tensors, "more tensor", "more tensors"));
    }
    table.write(out)
}

/// Rows of cells, aligned.
#[derive(Default)]
struct Table(Vec<[String; 6]>);

impl Table {
    fn add(&mut self, block: &AliveBlock, peak: Bytes) {
        let [bytes, size, part] = amounts(block.bytes, peak);
        let mut amounts = [bytes, size, part];
        for tensor in &block.tensors {
            let [bytes, size, part] = std::mem::take(&mut amounts);
            let [made, read] = life(tensor);
            let same = if bytes.is_empty() { "same memory: " } else { "" };
            self.0.push([bytes, size, part, format!("{same}{}", tensor.tensor), made, read]);
        }
        if let Some(result) = &block.room_for {
            self.0.push([
                String::new(),
                String::new(),
                String::new(),
                format!("inside {result}"),
                String::new(),
                String::new(),
            ]);
        }
    }

    fn add_rest(&mut self, bytes: Bytes, peak: Bytes, what: String) {
        let [bytes, size, part] = amounts(bytes, peak);
        self.0.push([bytes, size, part, what, String::new(), String::new()]);
    }

    fn write(self, out: &mut String) -> fmt::Result {
        let titles = ["bytes", "", "", "tensor", "made", "last read"].map(str::to_owned);
        let rows: Vec<[String; 6]> = std::iter::once(titles).chain(self.0).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..5).map(width).collect();
        for [bytes, size, part, tensor, made, read] in &rows {
            let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|column| widths[column]);
            let line = format!("    {bytes:>a$}  {size:>b$}  {part:>c$}  {tensor:d$}  {made:e$}  {read}");
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Bytes, the same for people, and which part of the peak that is.
fn amounts(bytes: Bytes, peak: Bytes) -> [String; 3] {
    let tenths = u128::from(bytes) * 1000 / u128::from(peak.max(1));
    [bytes.to_string(), human(bytes), format!("{}.{} %", tenths / 10, tenths % 10)]
}

/// When a tensor is made, and who reads it last.
fn life(tensor: &AliveTensor) -> [String; 2] {
    let made = match &tensor.made {
        None => "start".to_owned(),
        Some(Node { step, .. }) => format!("step {step}"),
    };
    let read = match (&tensor.last_read, tensor.kept) {
        (Some(node), None) => node.to_string(),
        (_, Some(Kept::Output)) => "kept to the end: output".to_owned(),
        (_, Some(Kept::Unread)) => "kept to the end: nobody reads it".to_owned(),
        (None, None) => "nobody".to_owned(),
    };
    [made, read]
}

fn write_reuse(out: &mut String, reuse: &Reuse, lower_bound: Bytes) -> fmt::Result {
    let Reuse { in_place, inside_concat, unread_inputs, inactive, bytes, .. } = reuse;
    if in_place.is_empty() && inside_concat.is_empty() && unread_inputs.is_empty() && inactive.is_empty() {
        return writeln!(out, "\n  Nothing was reused in place.");
    }
    write!(out, "\n  Reused: {} in sum", exact(*bytes))?;
    match reuse.lower_bound_without {
        Some(without) if without > lower_bound => {
            writeln!(out, "; without that {} would be alive at the worst step", exact(without))?
        }
        _ => writeln!(out, "; the worst step would need the same without")?,
    }
    let taken =
        in_place.iter().map(|it| format!("{}, {}, in the memory of {}", it.tensor, human(it.bytes), it.memory_of));
    write_some(out, "in place", in_place.len(), taken)?;
    let inside = inside_concat.iter().map(|it| format!("{}, {}, inside {}", it.tensor, human(it.bytes), it.memory_of));
    write_some(out, "computed where a CONCAT puts them", inside_concat.len(), inside)?;
    let freed = |it: &Freed| format!("{}, {}", it.tensor, human(it.bytes));
    let unread = unread_inputs.iter().map(freed);
    write_some(out, "unread, free once the graph starts", unread_inputs.len(), unread)?;
    write_some(out, "inactive (no backend computes them)", inactive.len(), inactive.iter().map(freed))
}

fn write_some(out: &mut String, what: &str, count: usize, all: impl Iterator<Item = String>) -> fmt::Result {
    if count == 0 {
        return Ok(());
    }
    writeln!(out, "    {count} {what}{}:", if count > MOST_REUSED { ", the largest" } else { "" })?;
    all.take(MOST_REUSED).try_for_each(|line| writeln!(out, "      {line}"))
}

fn write_advice(out: &mut String, buffer: &BufferExplanation, peak: &Peak) -> fmt::Result {
    if !buffer.advice.is_empty() {
        writeln!(out, "\n  What would lower it most, each change alone:")?;
    }
    for advice in &buffer.advice {
        writeln!(out, "    {} less: {}", exact(advice.saves), advice.change)?;
        writeln!(out, "      the most is then alive at {}", advice.worst)?;
    }
    match &buffer.limit {
        Some(limit) => write_limit(out, limit, peak),
        None if buffer.advice.is_empty() => {
            writeln!(out, "\n  No single change that was tried frees anything at that step.")
        }
        None => Ok(()),
    }
}

fn write_limit(out: &mut String, limit: &Limit, peak: &Peak) -> fmt::Result {
    writeln!(out, "\n  No single change that was tried lowers it, not by a thousandth.")?;
    writeln!(out, "  The nearest frees {} at step {}:", exact(limit.frees), peak.node.step)?;
    writeln!(out, "    {}", limit.change)?;
    writeln!(out, "      but {} is then alive at {}", exact(limit.lower_bound), limit.worst)
}
