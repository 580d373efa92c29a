//! The table of a program's allocators, one line per buffer.

use std::fmt::Write;

use serde::Serialize;

use crate::placement::Bytes;

use super::sizes::as_float;

/// An allocator of a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    /// The process that has it.
    pub pid: u32,
    /// Its number in the process, from 1.
    pub allocator: u64,
    /// The number of plans; `None` for ggml-alloc.
    pub plans: Option<u64>,
    /// The time of planning, in microseconds; `None` for ggml-alloc.
    pub plan_us: Option<f64>,
    /// Its buffers.
    pub buffers: Vec<BufferRow>,
}

/// A buffer of an allocator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BufferRow {
    /// Its number in the allocator.
    pub id: usize,
    /// The name of its buffer type.
    pub name: String,
    /// Its size in bytes when the program ended.
    pub bytes: Bytes,
    /// No plan with the same live ranges is smaller; `None` for ggml-alloc.
    pub lower_bound: Option<Bytes>,
    /// Bytes that ggml-alloc would have needed; `None` for ggml-alloc itself, and if unknown.
    pub ggml_alloc: Option<Bytes>,
}

/// Returns the bytes of all buffers of all allocators.
pub fn total_bytes(rows: &[&RunRow]) -> Bytes {
    total(rows, |buffer| Some(buffer.bytes)).unwrap_or(0)
}

/// Formats the rows as an aligned table. Allocators are named with their process if there are several, and a last line has
/// the sums if there are several buffers.
pub fn run_table(rows: &[&RunRow]) -> String {
    let is_several_processes = rows.windows(2).any(|pair| pair[0].pid != pair[1].pid);
    let name = |row: &RunRow| match is_several_processes {
        true => format!("{}/{}", row.pid, row.allocator),
        false => row.allocator.to_string(),
    };
    let mut lines = vec![TITLES.map(str::to_owned)];
    for row in rows {
        for (number, buffer) in row.buffers.iter().enumerate() {
            let first = |text: String| if number == 0 { text } else { String::new() };
            let plans = row.plans.map_or_else(String::new, |plans| plans.to_string());
            let time = row.plan_us.map_or_else(String::new, |time| format!("{time:.1}"));
            let [bytes, bound, ggml, ratio] = sizes(buffer.bytes, buffer.lower_bound, buffer.ggml_alloc);
            let (name, kind) = (first(name(row)), format!("{} {}", buffer.id, buffer.name));
            lines.push([name, kind, bytes, bound, ggml, ratio, first(plans), first(time)]);
        }
    }
    if lines.len() > 2 {
        lines.push(sums(rows));
    }
    aligned(&lines)
}

const TITLES: [&str; 8] =
    ["allocator", "buffer", "bytes", "lower bound", "ggml-alloc", "ratio", "plans", "planning, us"];

fn sums(rows: &[&RunRow]) -> [String; 8] {
    let bytes = total_bytes(rows);
    let [bytes, bound, ggml, ratio] =
        sizes(bytes, total(rows, |buffer| buffer.lower_bound), total(rows, |buffer| buffer.ggml_alloc));
    let plans: Option<u64> = rows.iter().map(|row| row.plans).sum();
    let time: Option<f64> = rows.iter().map(|row| row.plan_us).sum();
    let plans = plans.map_or_else(String::new, |plans| plans.to_string());
    let time = time.map_or_else(String::new, |time| format!("{time:.1}"));
    ["all".to_owned(), String::new(), bytes, bound, ggml, ratio, plans, time]
}

/// Sums a size over all buffers; `None` if one is unknown.
fn total(rows: &[&RunRow], bytes: impl Fn(&BufferRow) -> Option<Bytes>) -> Option<Bytes> {
    let mut buffers = rows.iter().flat_map(|row| &row.buffers);
    buffers.try_fold(0, |sum: Bytes, buffer| Some(sum.saturating_add(bytes(buffer)?)))
}

fn sizes(bytes: Bytes, bound: Option<Bytes>, ggml: Option<Bytes>) -> [String; 4] {
    let number = |bytes: Option<Bytes>| bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    let ratio = ggml
        .filter(|&ggml| ggml > 0)
        .map_or_else(|| "-".to_owned(), |ggml| format!("{:.3}", as_float(bytes) / as_float(ggml)));
    [number(Some(bytes)), number(bound), number(ggml), ratio]
}

/// Aligns names to the left and numbers to the right.
fn aligned<const N: usize>(lines: &[[String; N]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (column, cell) in line.iter().enumerate() {
            let width = width(column);
            let _ = if column < 2 { write!(row, "{cell:width$}  ") } else { write!(row, "{cell:>width$}  ") };
        }
        let _ = writeln!(text, "{}", row.trim_end());
    }
    text
}
