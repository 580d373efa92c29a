//! The table of a program's allocators, one line per buffer.

use std::fmt::Write;

use lastuse::placement::Bytes;
use serde::{Deserialize, Serialize};

use crate::report::table::Table;

use super::sizes::{SizeUnit, as_float, mib};

/// An allocator of a program.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
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
    /// The graphs that it has planned, each once, in the order of their first plans; empty for ggml-alloc.
    #[serde(skip_deserializing)]
    pub graphs: Vec<GraphRow>,
}

/// A graph that an allocator has planned.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct GraphRow {
    /// A label of its input: "512 tokens".
    pub label: String,
    /// The number of its nodes.
    pub nodes: u64,
}

/// A buffer of an allocator.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
    #[serde(rename(deserialize = "ggml_alloc_bytes"))]
    pub ggml_alloc: Option<Bytes>,
    /// Bytes that it would have by itself, if allocators share it in an arena; `bytes` are then those that the others have not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<Bytes>,
}

/// Returns the bytes of all buffers of all allocators.
pub fn total_bytes(rows: &[&RunRow]) -> Bytes {
    total(rows, |buffer| Some(buffer.bytes)).unwrap_or(0)
}

/// How many graphs of an allocator are listed.
const MAX_GRAPHS: usize = 6;

/// Formats which graphs each allocator has planned, a line for each.
pub fn graph_lines(rows: &[&RunRow]) -> String {
    let name = namer(rows);
    let mut text = String::new();
    for row in rows.iter().filter(|row| !row.graphs.is_empty()) {
        let listed: Vec<String> = row
            .graphs
            .iter()
            .take(MAX_GRAPHS)
            .map(|graph| format!("{} ({} nodes)", graph.label, graph.nodes))
            .collect();
        let rest = row.graphs.len().saturating_sub(MAX_GRAPHS);
        let more = if rest > 0 { format!(", and {rest} more") } else { String::new() };
        let count = row.graphs.len();
        let graphs = if count == 1 { "graph" } else { "graphs" };
        let _ = writeln!(text, "allocator {} planned {count} {graphs}: {}{more}", name(row), listed.join(", "));
    }
    text
}

/// Formats what allocators that share memory save by that; empty if none do.
pub fn arena_line(rows: &[&RunRow]) -> String {
    let is_shared = |row: &&&RunRow| row.buffers.iter().any(|buffer| buffer.alone.is_some());
    let shared: Vec<&RunRow> = rows.iter().filter(is_shared).copied().collect();
    if shared.is_empty() {
        return String::new();
    }
    let buffers = || shared.iter().flat_map(|row| &row.buffers);
    let together: Bytes = buffers().map(|buffer| buffer.bytes).sum();
    let alone: Bytes = buffers().filter_map(|buffer| buffer.alone).sum();
    let name = namer(rows);
    let names: Vec<String> = shared.iter().map(|row| name(row)).collect();
    format!(
        "arena: allocators {} share {} MiB; each with its own they would have {} MiB\n",
        names.join(", "),
        mib(together),
        mib(alone)
    )
}

/// Returns how allocators are named: with their process if there are several.
fn namer(rows: &[&RunRow]) -> impl Fn(&RunRow) -> String + use<> {
    let is_several_processes = rows.windows(2).any(|pair| pair[0].pid != pair[1].pid);
    move |row: &RunRow| match is_several_processes {
        true => format!("{}/{}", row.pid, row.allocator),
        false => row.allocator.to_string(),
    }
}

/// A line of the table: a buffer of an allocator, or the sums.
struct Line {
    allocator: String,
    buffer: String,
    bytes: Bytes,
    lower_bound: Option<Bytes>,
    ggml_alloc: Option<Bytes>,
    plans: Option<u64>,
    plan_us: Option<f64>,
}

impl Line {
    fn ratio(&self) -> Option<f64> {
        self.ggml_alloc.filter(|&ggml| ggml > 0).map(|ggml| as_float(self.bytes) / as_float(ggml))
    }
}

/// Formats the rows as an aligned table. Allocators are named with their process if there are several, and a last line has
/// the sums if there are several buffers.
pub fn run_table(rows: &[&RunRow], unit: SizeUnit) -> String {
    let size = |bytes: Option<Bytes>| bytes.map_or_else(|| "-".to_owned(), |bytes| unit.text(bytes));
    let saved = |line: &Line| line.ratio().map_or("-".to_owned(), |ratio| format!("{:.1} %", 100.0 * (1.0 - ratio)));
    let table = Table::<Line>::new()
        .texts("allocator", 0, |line| line.allocator.clone())
        .texts("buffer", 0, |line| line.buffer.clone())
        .numbers(unit.name(), 0, |line| unit.text(line.bytes))
        .numbers("lower bound", 0, |line| size(line.lower_bound))
        .numbers("ggml-alloc", 0, |line| size(line.ggml_alloc))
        .numbers("saved", 0, saved)
        .numbers("plans", 0, |line| line.plans.map_or_else(String::new, |plans| plans.to_string()))
        .numbers("planning, us", 0, |line| line.plan_us.map_or_else(String::new, |time| format!("{time:.1}")));
    table.text(&lines(rows))
}

fn lines(rows: &[&RunRow]) -> Vec<Line> {
    let name = namer(rows);
    let mut lines = Vec::new();
    for row in rows {
        for (number, buffer) in row.buffers.iter().enumerate() {
            let is_first = number == 0;
            lines.push(Line {
                allocator: if is_first { name(row) } else { String::new() },
                buffer: format!("{} {}", buffer.id, buffer.name),
                bytes: buffer.bytes,
                lower_bound: buffer.lower_bound,
                ggml_alloc: buffer.ggml_alloc,
                plans: row.plans.filter(|_| is_first),
                plan_us: row.plan_us.filter(|_| is_first),
            });
        }
    }
    if lines.len() > 1 {
        lines.push(Line {
            allocator: "all".to_owned(),
            buffer: String::new(),
            bytes: total_bytes(rows),
            lower_bound: total(rows, |buffer| buffer.lower_bound),
            ggml_alloc: total(rows, |buffer| buffer.ggml_alloc),
            plans: rows.iter().map(|row| row.plans).sum(),
            plan_us: rows.iter().map(|row| row.plan_us).sum(),
        });
    }
    lines
}

/// Returns the sum over all buffers; `None` if it is not known for one.
fn total(rows: &[&RunRow], bytes: impl Fn(&BufferRow) -> Option<Bytes>) -> Option<Bytes> {
    let mut buffers = rows.iter().flat_map(|row| &row.buffers);
    buffers.try_fold(0, |sum: Bytes, buffer| Some(sum.saturating_add(bytes(buffer)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: u32, buffers: &[(u64, Option<u64>)], graphs: &[(&str, u64)]) -> RunRow {
        let buffer = |(id, &(bytes, ggml_alloc)): (usize, &(u64, Option<u64>))| BufferRow {
            id,
            name: "CPU".to_owned(),
            bytes,
            lower_bound: Some(bytes),
            ggml_alloc,
            alone: None,
        };
        RunRow {
            pid,
            allocator: 1,
            plans: Some(2),
            plan_us: Some(12.5),
            buffers: buffers.iter().enumerate().map(buffer).collect(),
            graphs: graphs.iter().map(|&(label, nodes)| GraphRow { label: label.to_owned(), nodes }).collect(),
        }
    }

    #[test]
    fn sizes_are_in_one_unit_with_what_is_saved() {
        let row = row(1, &[(3 << 20, Some(4 << 20)), (0, None)], &[]);
        assert_eq!(
            run_table(&[&row], SizeUnit::Bytes),
            "allocator  buffer    bytes  lower bound  ggml-alloc   saved  plans  planning, us\n\
             1          0 CPU   3145728      3145728     4194304  25.0 %      2          12.5\n\
             \x20          1 CPU         0            0           -       -\n\
             all                3145728      3145728           -       -      2          12.5\n"
        );
        assert!(
            run_table(&[&row], SizeUnit::Mib).contains("\n1          0 CPU   3.00         3.00        4.00  25.0 %  ")
        );
    }

    #[test]
    fn an_arena_is_compared_with_memory_of_each() {
        let mut rows = [row(1, &[(3 << 20, None)], &[]), row(1, &[(1 << 20, None)], &[]), row(1, &[(0, None)], &[])];
        rows[2].allocator = 3;
        assert_eq!(arena_line(&rows.each_ref()), "");
        rows[0].buffers[0].alone = Some(3 << 20);
        rows[2].buffers[0].alone = Some(2 << 20);
        let line = "arena: allocators 1, 3 share 3.00 MiB; each with its own they would have 5.00 MiB\n";
        assert_eq!(arena_line(&rows.each_ref()), line);
    }

    #[test]
    fn graphs_are_listed_by_what_they_compute_on() {
        let several = [("512 tokens", 330), ("1 token", 330)];
        assert_eq!(
            graph_lines(&[&row(7, &[], &several)]),
            "allocator 1 planned 2 graphs: 512 tokens (330 nodes), 1 token (330 nodes)\n"
        );
        let many: Vec<(&str, u64)> = (0..8).map(|nodes| ("x [4]", nodes)).collect();
        let lines = graph_lines(&[&row(7, &[], &many), &row(8, &[], &many[..1])]);
        assert!(lines.starts_with("allocator 7/1 planned 8 graphs: x [4] (0 nodes), "), "{lines}");
        assert!(
            lines.contains("x [4] (5 nodes), and 2 more\nallocator 8/1 planned 1 graph: x [4] (0 nodes)\n"),
            "{lines}"
        );
    }
}
