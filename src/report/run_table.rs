//! What a program's allocators took, a line for each buffer.

use std::fmt::Write;

use serde::Serialize;

use crate::placement::Bytes;

/// One allocator of a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    /// The process.
    pub pid: u32,
    /// Its number in the process, from 1.
    pub allocator: u64,
    /// How many plans were made; not known of ggml's own allocator, as the time.
    pub plans: Option<u64>,
    /// The time that they took, in microseconds.
    pub plan_us: Option<f64>,
    /// Its buffers.
    pub buffers: Vec<BufferRow>,
}

/// One buffer of an allocator; what is not known of ggml's own allocator is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BufferRow {
    /// Its number in the allocator.
    pub id: usize,
    /// The name of its buffer type.
    pub name: String,
    /// What it took in the end.
    pub bytes: Bytes,
    /// What no plan with the same live ranges goes below.
    pub lower_bound: Option<Bytes>,
    /// What ggml's own allocator would have taken.
    pub ggml_alloc: Option<Bytes>,
}

/// The bytes of all buffers of all allocators.
pub fn total_bytes(rows: &[&RunRow]) -> Bytes {
    total(rows, |buffer| Some(buffer.bytes)).unwrap_or(0)
}

/// The rows as an aligned table. Processes are told apart where there are several, and summed up where there are several
/// buffers.
pub fn run_table(rows: &[&RunRow]) -> String {
    let has_several = rows.windows(2).any(|pair| pair[0].pid != pair[1].pid);
    let name = |row: &RunRow| match has_several {
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

/// Nothing where one of them is not known.
fn total(rows: &[&RunRow], bytes: impl Fn(&BufferRow) -> Option<Bytes>) -> Option<Bytes> {
    let mut buffers = rows.iter().flat_map(|row| &row.buffers);
    buffers.try_fold(0, |sum: Bytes, buffer| Some(sum.saturating_add(bytes(buffer)?)))
}

fn sizes(bytes: Bytes, bound: Option<Bytes>, ggml: Option<Bytes>) -> [String; 4] {
    let number = |bytes: Option<Bytes>| bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    let ratio = ggml.filter(|&ggml| ggml > 0).map_or_else(|| "-".to_owned(), |ggml| ratio(bytes, ggml));
    [number(Some(bytes)), number(bound), number(ggml), ratio]
}

#[allow(clippy::cast_precision_loss, reason = "ratios of byte counts need no more digits")]
fn ratio(bytes: Bytes, other: Bytes) -> String {
    format!("{:.3}", bytes as f64 / other as f64)
}

/// Names to the left, numbers to the right.
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
