//! Explanations as text.

use std::fmt::{self, Write};

use crate::placement::{Bytes, Step};
use crate::report::sizes::{exact, fixed};
use crate::report::table::aligned;

use super::change::counted;
use super::explanation::{BufferExplanation, Explanation, FreedInput, Limit, LiveBlock, LiveTensor, Peak, Reuse};
use super::named::{Alias, Node};
use super::program::Program;
use super::remedy_text::{percent, write_kernels, write_remedies, write_tiling};
use super::uses::Kept;

/// How many tensors are listed by default.
pub const DEFAULT_TOP: usize = 20;

/// How many tensors are listed for each kind of reuse.
const MAX_REUSED: usize = 3;

/// How many runs of steps as high as the peak are listed.
const MAX_RUNS: usize = 4;

/// Formats an explanation as text. The `top` largest tensors that are live at each peak are listed, and the rest is
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
    explanation.buffers.iter().try_for_each(|buffer| write_buffer(out, buffer, top, explanation.program))?;
    if let Some(tiling) = &explanation.tiling {
        write_tiling(out, tiling)?;
    }
    if explanation.all_tried {
        return Ok(());
    }
    writeln!(out, "\nThe graph is large, so not every change was tried: \"lastuse explain --trials\" raises the limit.")
}

fn write_buffer(out: &mut String, buffer: &BufferExplanation, top: usize, program: Option<Program>) -> fmt::Result {
    let BufferExplanation { id, name, size, .. } = buffer;
    write!(out, "\nBuffer {id}, {}: {}", name.escape_debug(), exact(*size))?;
    write_ggml_alloc(out, buffer.ggml_alloc, *size)?;
    let Some(peak) = &buffer.peak else { return writeln!(out, "  The buffer is empty.") };
    write_peak(out, peak)?;
    write_fragmentation(out, buffer)?;
    write_live(out, peak, top)?;
    write_remedies(out, &buffer.remedies, peak.bytes, program)?;
    write_reuse(out, &buffer.reuse, buffer.lower_bound)?;
    if let Some(kernels) = &buffer.kernels {
        write_kernels(out, kernels)?;
    }
    write_advice(out, buffer, peak)
}

fn write_ggml_alloc(out: &mut String, ggml_alloc: Option<Bytes>, size: Bytes) -> fmt::Result {
    match ggml_alloc {
        None => writeln!(out),
        Some(bytes) if bytes == size => writeln!(out, "; ggml-alloc needs the same"),
        Some(bytes) => {
            let sign = if size < bytes { '-' } else { '+' };
            // Rounded, as in every table.
            let change = percent(size.abs_diff(bytes).saturating_add(bytes / 2000), bytes);
            writeln!(out, ", {sign}{change} from ggml-alloc's {}", exact(bytes))
        }
    }
}

fn write_peak(out: &mut String, peak: &Peak) -> fmt::Result {
    writeln!(out, "  Peak: {}: {}.", peak.node, exact(peak.bytes))?;
    if peak.as_high.is_empty() {
        return Ok(());
    }
    let steps: Step = peak.as_high.iter().map(|(first, last)| last - first + 1).sum();
    let run =
        |&(first, last): &(Step, Step)| if first == last { format!("{first}") } else { format!("{first} to {last}") };
    let runs: Vec<String> = peak.as_high.iter().take(MAX_RUNS).map(run).collect();
    let more = if peak.as_high.len() > MAX_RUNS { " and so on" } else { "" };
    let steps = counted(steps as usize, "other step", "other steps");
    writeln!(out, "  Equally high at {steps}: {}{more}.", runs.join(", "))
}

fn write_fragmentation(out: &mut String, buffer: &BufferExplanation) -> fmt::Result {
    match buffer.fragmentation {
        0 => write!(out, "  Fragmentation: none, the plan is at its lower bound")?,
        lost => {
            let proven = if buffer.optimal { ", which is proven to be the least" } else { "" };
            write!(out, "  Fragmentation: {} above the lower bound{proven}", exact(lost))?;
        }
    }
    if buffer.chunks > 1 { writeln!(out, ", in {} chunks.", buffer.chunks) } else { writeln!(out, ".") }
}

fn write_live(out: &mut String, peak: &Peak, top: usize) -> fmt::Result {
    let mut listed = 0;
    let shown = peak.live.iter().take_while(|block| {
        let is_shown = listed < top;
        listed += block.tensors.len().max(1);
        is_shown
    });
    let shown = shown.count();
    let (listed, rest) = peak.live.split_at(shown);
    writeln!(out, "\n  Live at that step, largest first:")?;
    let titles = ["bytes", "", "", "tensor", "defined", "last use"].map(str::to_owned);
    let mut rows = vec![(titles, String::new())];
    listed.iter().for_each(|block| add_block(&mut rows, block, peak.bytes));
    if !rest.is_empty() {
        let [bytes, size, part] = amounts(rest.iter().map(|block| block.bytes).sum(), peak.bytes);
        let tensors = rest.iter().map(|block| block.tensors.len().max(1)).sum();
        let what = counted(tensors, "more tensor", "more tensors");
        rows.push(([bytes, size, part, what, String::new(), String::new()], String::new()));
    }
    let (rows, sources): (Vec<_>, Vec<_>) = rows.into_iter().map(|(row, sources)| (row.to_vec(), sources)).unzip();
    let table = aligned(&rows, &[], |column| column >= 3);
    let names = table.find("tensor").unwrap_or(0);
    for (line, sources) in table.lines().zip(sources) {
        writeln!(out, "    {line}")?;
        if !sources.is_empty() {
            writeln!(out, "    {:names$}  from {sources}", "")?;
        }
    }
    Ok(())
}

/// Adds a row for each tensor of a block, with its sources.
fn add_block(rows: &mut Vec<([String; 6], String)>, block: &LiveBlock, peak: Bytes) {
    let mut amounts = amounts(block.bytes, peak);
    for tensor in &block.tensors {
        let [bytes, size, part] = std::mem::take(&mut amounts);
        let [def, last_use] = live_range(tensor);
        let same = if bytes.is_empty() { "same memory: " } else { "" };
        let row = [bytes, size, part, format!("{same}{}, {}", tensor.tensor, tensor.shape), def, last_use];
        let sources: Vec<String> = tensor.sources.iter().map(ToString::to_string).collect();
        rows.push((row, sources.join("; ")));
    }
    if let Some(result) = &block.room_for {
        rows.push((["", "", "", &format!("inside {result}"), "", ""].map(str::to_owned), String::new()));
    }
}

/// Formats bytes, in their largest unit too, and as a part of the peak.
fn amounts(bytes: Bytes, peak: Bytes) -> [String; 3] {
    [bytes.to_string(), fixed(bytes), percent(bytes, peak)]
}

/// Formats the def and the last use of a tensor.
fn live_range(tensor: &LiveTensor) -> [String; 2] {
    let def = match &tensor.def {
        None => "start".to_owned(),
        Some(Node { step, .. }) => format!("step {step}"),
    };
    let last_use = match (&tensor.last_use, tensor.kept) {
        (Some(node), None) => match &tensor.retained_until {
            Some(until) if until.step > node.step => format!("{node}; retained until {until}"),
            _ => node.to_string(),
        },
        (_, Some(Kept::Retained)) => "retained to the end".to_owned(),
        (_, Some(Kept::Output)) => "output, kept to the end".to_owned(),
        (_, Some(Kept::Unused)) => "never, kept to the end".to_owned(),
        (None, None) => "never".to_owned(),
    };
    [def, last_use]
}

fn write_reuse(out: &mut String, reuse: &Reuse, lower_bound: Bytes) -> fmt::Result {
    let Reuse { in_place, inside_concat, unread_inputs, inactive, bytes, .. } = reuse;
    if in_place.is_empty() && inside_concat.is_empty() && unread_inputs.is_empty() && inactive.is_empty() {
        return writeln!(out, "\n  No memory is reused in place.");
    }
    write!(out, "\n  Reused: {}", exact(*bytes))?;
    match reuse.lower_bound_without {
        Some(without) if without > lower_bound => {
            writeln!(out, "; without that the lower bound would be {}", exact(without))?
        }
        _ => writeln!(out, "; the lower bound would be the same without that")?,
    }
    let alias = |it: &Alias| format!("{}, {}, in the memory of {}", it.tensor, fixed(it.bytes), it.memory_of);
    write_some(out, "in place", in_place.len(), in_place.iter().map(alias))?;
    write_some(out, "inside the result of a CONCAT", inside_concat.len(), inside_concat.iter().map(alias))?;
    let freed = |it: &FreedInput| format!("{}, {}", it.tensor, fixed(it.bytes));
    let unread = unread_inputs.iter().map(freed);
    write_some(out, "never used, free once the graph starts", unread_inputs.len(), unread)?;
    write_some(out, "inactive (no backend computes them)", inactive.len(), inactive.iter().map(freed))
}

fn write_some(out: &mut String, what: &str, count: usize, all: impl Iterator<Item = String>) -> fmt::Result {
    if count == 0 {
        return Ok(());
    }
    writeln!(out, "    {count} {what}{}:", if count > MAX_REUSED { ", the largest" } else { "" })?;
    all.take(MAX_REUSED).try_for_each(|line| writeln!(out, "      {line}"))
}

fn write_advice(out: &mut String, buffer: &BufferExplanation, peak: &Peak) -> fmt::Result {
    if !buffer.advice.is_empty() {
        writeln!(out, "\n  Changes that lower the peak most, each alone:")?;
    }
    for advice in &buffer.advice {
        writeln!(out, "    saves {}: {}", exact(advice.saves), advice.change)?;
        writeln!(out, "      then the peak is {}", advice.peak)?;
    }
    match &buffer.limit {
        Some(limit) => write_limit(out, limit, peak),
        None if buffer.advice.is_empty() => {
            writeln!(out, "\n  No single change of the graph that was tried lowers the live bytes at that step.")
        }
        None => Ok(()),
    }
}

fn write_limit(out: &mut String, limit: &Limit, peak: &Peak) -> fmt::Result {
    writeln!(out, "\n  No single change of the graph that was tried lowers the peak by a thousandth or more.")?;
    writeln!(out, "  The closest frees {} at step {}:", exact(limit.frees), peak.node.step)?;
    writeln!(out, "    {}", limit.change)?;
    writeln!(out, "      but then {} are live at {}", exact(limit.lower_bound), limit.peak)
}
