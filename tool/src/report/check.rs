//! The result of checking a plan, as text and as JSON.

use std::fmt::Write;

use lastuse::graph::snapshot::Snapshot;
use lastuse::placement::Bytes;
use serde::Serialize;

use crate::formats::{PlanDefect, PlanFile};

/// Formats the result as text: a line for each buffer of a valid plan, or a line for each defect and their number.
pub fn check_text(snapshot: &Snapshot, plan: &PlanFile, defects: &[PlanDefect]) -> String {
    let mut text = String::new();
    for PlanDefect { kind, message, .. } in defects {
        let _ = writeln!(text, "{kind}: {message}");
    }
    let (nodes, tensors) = (snapshot.graph.nodes().len(), plan.tensors.len());
    match defects.len() {
        0 => {
            let _ =
                writeln!(text, "OK: {tensors} tensors are placed, and no live value is overwritten in {nodes} steps");
            for buffer in &plan.buffers {
                let (name, size, bound) = (&buffer.name, buffer.size, buffer.lower_bound);
                let _ = writeln!(text, "{name}: {size} bytes, lower bound {bound}, chunks: {:?}", buffer.chunks);
            }
        }
        1 => text.push_str("The plan is invalid: 1 defect\n"),
        count => {
            let _ = writeln!(text, "The plan is invalid: {count} defects");
        }
    }
    text
}

#[derive(Serialize)]
struct CheckDocument<'a> {
    format: &'static str,
    version: u64,
    label: &'a str,
    ok: bool,
    nodes: usize,
    tensors: usize,
    buffers: Vec<CheckedBuffer<'a>>,
    defects: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct CheckedBuffer<'a> {
    name: &'a str,
    size: Bytes,
    lower_bound: Bytes,
}

#[derive(Serialize)]
struct Entry<'a> {
    kind: String,
    tensors: &'a [u64],
    message: &'a str,
}

/// Serializes the result as one line of JSON, format "lastuse-check", version 1.
///
/// # Errors
/// None is known: the data is plain.
pub fn check_json(snapshot: &Snapshot, plan: &PlanFile, defects: &[PlanDefect]) -> serde_json::Result<String> {
    let buffers =
        plan.buffers.iter().map(|it| CheckedBuffer { name: &it.name, size: it.size, lower_bound: it.lower_bound });
    let entries =
        defects.iter().map(|it| Entry { kind: it.kind.to_string(), tensors: &it.tensors, message: &it.message });
    serde_json::to_string(&CheckDocument {
        format: "lastuse-check",
        version: 1,
        label: &snapshot.label,
        ok: defects.is_empty(),
        nodes: snapshot.graph.nodes().len(),
        tensors: plan.tensors.len(),
        buffers: buffers.collect(),
        defects: entries.collect(),
    })
}
