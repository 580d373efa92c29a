//! An accounting as tables.

use std::fmt::Write;

use crate::offload::accounting::{AccountedTensor, Accounting, Sums};
use crate::placement::Bytes;
#[cfg(feature = "cli")]
use crate::report::sizes::mib;

/// Formats the devices and the buffers as tables.
pub fn accounting_summary(accounting: &Accounting) -> String {
    if accounting.buffers.is_empty() {
        return "no buffers were recorded\n".to_owned();
    }
    devices(accounting) + "\n" + &buffers(accounting)
}

/// Formats the memory of the devices as a table in MiB, and in bytes in all; empty if there are no buffers.
#[cfg(feature = "cli")]
pub fn devices_in_mib(accounting: &Accounting) -> String {
    if accounting.buffers.is_empty() {
        return String::new();
    }
    let titles = SUM_TITLES.map(str::to_owned);
    let mut lines = vec![row(&["device, MiB"], titles, &["bytes"])];
    let mut add = |name: &str, sums: &Sums| {
        lines.push(row(&[name], cells(sums).map(mib), &[&sums.total().to_string()]));
    };
    accounting.devices.iter().for_each(|device| add(&device.name, &device.sums));
    if accounting.devices.len() > 1 {
        add("all", &accounting.sums());
    }
    aligned(&lines, 1)
}

/// Formats the devices, the buffers and the tensors of each graph as tables.
pub fn accounting_text(accounting: &Accounting) -> String {
    let mut text = accounting_summary(accounting);
    for graph in &accounting.graphs {
        let allocator = graph.allocator.map_or_else(String::new, |number| format!(" of allocator {number}"));
        let _ = writeln!(text, "\ngraph{allocator}: {} leafs, {} nodes", graph.leafs, graph.nodes);
        text.push_str(&tensors(accounting, &graph.tensors));
    }
    if !accounting.unread.is_empty() {
        text.push_str("\ntensors that no graph has\n");
        text.push_str(&tensors(accounting, &accounting.unread));
    }
    text
}

/// Returns the cells of sums: weights, KV, compute, other, rounding, total.
pub fn cells(sums: &Sums) -> [Bytes; 6] {
    [sums.weights, sums.kv, sums.compute, sums.other, sums.rounding, sums.total()]
}

/// The titles of these cells.
pub const SUM_TITLES: [&str; 6] = ["weights", "kv", "compute", "other", "rounding", "total"];

fn devices(accounting: &Accounting) -> String {
    let mut lines = vec![row(&["device"], SUM_TITLES.map(str::to_owned), &["free"])];
    for device in &accounting.devices {
        let free = device.memory.map_or_else(|| "-".to_owned(), |memory| memory.free.to_string());
        lines.push(row(&[&device.name], cells(&device.sums).map(|bytes| bytes.to_string()), &[&free]));
    }
    if accounting.devices.len() > 1 {
        lines.push(row(&["all"], cells(&accounting.sums()).map(|bytes| bytes.to_string()), &[""]));
    }
    aligned(&lines, 1)
}

fn buffers(accounting: &Accounting) -> String {
    let mut lines = vec![row(&["buffer", "device", "type", "usage"], SUM_TITLES.map(str::to_owned), &[])];
    for buffer in &accounting.buffers {
        let device = accounting.device_name(Some(buffer.device)).unwrap_or_default();
        let usage = if buffer.is_mapped { "mapped" } else { buffer.usage.name() };
        let numbers = cells(&buffer.sums).map(|bytes| bytes.to_string());
        lines.push(row(&[&buffer.id.to_string(), device, &buffer.buffer_type, usage], numbers, &[]));
    }
    aligned(&lines, 4)
}

fn tensors(accounting: &Accounting, tensors: &[AccountedTensor]) -> String {
    let titles = ["tensor", "class", "op", "executes", "resides", "type", "buffer", "offset", "bytes", "steps"];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    for tensor in tensors {
        let or_dash = |text: Option<&str>| text.unwrap_or("-").to_owned();
        let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let steps = tensor.steps.map(|steps| format!("{}-{}", steps.first, steps.last));
        lines.push(vec![
            one_line(&tensor.name),
            tensor.class.name().to_owned(),
            tensor.op.clone(),
            or_dash(tensor.executes.as_deref()),
            or_dash(accounting.device_name(tensor.device)),
            or_dash(tensor.buffer_type.as_deref()),
            number(tensor.location.map(|location| location.buffer)),
            number(tensor.location.map(|location| location.offset)),
            tensor.bytes.to_string(),
            or_dash(steps.as_deref()),
        ]);
    }
    aligned(&lines, 6)
}

/// Returns a name without control characters: any program may have given it.
pub fn one_line(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

fn row(first: &[&str], numbers: [String; 6], last: &[&str]) -> Vec<String> {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    [texts(first), numbers.to_vec(), texts(last)].concat()
}

/// Aligns the first `names` columns to the left, and numbers to the right.
fn aligned(lines: &[Vec<String>], names: usize) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let _ = if column < names { write!(row, "{cell:width$}  ") } else { write!(row, "{cell:>width$}  ") };
        }
        let _ = writeln!(text, "{}", row.trim_end());
    }
    text
}
