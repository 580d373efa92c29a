//! The memory of devices, for people: tables of devices, buffers and tensors, as text and as a part of a page.

mod grid;
mod history;
mod samples;
#[cfg(test)]
mod tests;

use grid::{Cell, Grid};
use history::{histories, turns};
use lastuse::accounting::{
    AccountedBuffer, AccountedDevice, AccountedTensor, Accounting, BufferUsage, MemoryClass, Sums,
};
use lastuse::placement::Bytes;
use samples::samples;

use super::run_table::{BufferRow, RunRow};
use super::sizes::{SizeUnit, as_float};

/// The titles of the parts of sums.
pub const PARTS: [&str; 6] = ["weights", "kv", "compute", "other", "rounding", "total"];

/// Weights, KV, compute, other, rounding, total.
pub fn parts(sums: &Sums) -> [Bytes; 6] {
    [sums.weights, sums.kv, sums.compute, sums.other, sums.rounding, sums.total()]
}

/// Returns the bytes of a device that are in memory, as far as that is known; those of a buffer have the class that most of it has.
/// `None` if it is known of no buffer.
pub fn resident(accounting: &Accounting, device: &AccountedDevice) -> Option<Sums> {
    let of_device = accounting.buffers.iter().filter(|buffer| buffer.device == device.name);
    let of_buffer = |buffer: &AccountedBuffer| {
        let class = MemoryClass::ALL.into_iter().max_by_key(|&class| buffer.sums.of(class))?;
        let mut sums = Sums::default();
        *sums.part(class) = buffer.resident?;
        Some(sums)
    };
    of_device.filter_map(of_buffer).reduce(|mut all, sums| {
        all.add(&sums);
        all
    })
}

/// Returns the sums of a device if ggml-alloc had planned the graphs, as the rows of a report tell. `None` if that is not known,
/// also where the device held the most at a moment when its compute buffers had other sizes than in the rows.
pub fn with_ggml_alloc(accounting: &Accounting, device: &AccountedDevice, rows: &[&RunRow]) -> Option<Sums> {
    let is_compute = |buffer: &&AccountedBuffer| buffer.device == device.name && buffer.usage == BufferUsage::Compute;
    let held: Vec<&AccountedBuffer> = accounting.buffers.iter().filter(is_compute).collect();
    let is_here = |buffer: &&BufferRow| held.iter().any(|own| own.buffer_type == buffer.name);
    let of_process = rows.iter().filter(|row| row.pid == accounting.process);
    let own: Vec<&BufferRow> = of_process.flat_map(|row| &row.buffers).filter(is_here).collect();
    let asked: Bytes = held.iter().map(|buffer| buffer.asked).sum();
    if held.is_empty() || own.iter().map(|buffer| buffer.bytes).sum::<Bytes>() != asked {
        return None;
    }
    let without = own.iter().try_fold(0, |sum: Bytes, buffer| sum.checked_add(buffer.ggml_alloc?))?;
    let compute = (device.sums.compute + without).checked_sub(asked)?;
    Some(Sums { compute, ..device.sums })
}

/// Formats the devices and the buffers as text.
pub fn accounting_summary(accounting: &Accounting) -> String {
    if accounting.buffers.is_empty() {
        return "no buffers were recorded\n".to_owned();
    }
    devices(accounting, true).text() + "\n" + &buffers(accounting).text()
}

/// Formats the devices, the buffers and the tensors of each graph as text.
pub fn accounting_text(accounting: &Accounting) -> String {
    let of_tensors = |(title, tensors): (String, &[AccountedTensor])| format!("\n{title}\n{}", table(tensors).text());
    accounting_summary(accounting) + &tensors(accounting).map(of_tensors).collect::<String>()
}

/// Formats the memory of the devices as text; empty if there are no buffers. With the rows of a report, what the devices would
/// hold with ggml-alloc is a line, where that is known.
pub fn devices_in(unit: SizeUnit, accounting: &Accounting, rows: &[&RunRow]) -> String {
    if accounting.buffers.is_empty() {
        return String::new();
    }
    let mut table = Grid::new(&[&*format!("device, {}", unit.name())], &PARTS);
    let mut add = |name: &str, sums: &Sums| {
        let sizes = parts(sums).map(|bytes| Cell::new(&unit.text(bytes)));
        table.add([Cell::new(name)].into_iter().chain(sizes));
    };
    for device in &accounting.devices {
        add(&device.name, &device.sums);
        if let Some(sums) = resident(accounting, device) {
            add("  resident", &sums);
        }
        if let Some(sums) = with_ggml_alloc(accounting, device, rows) {
            add("  ggml-alloc", &sums);
        }
    }
    if accounting.devices.len() > 1 {
        add("all", &accounting.sums());
    }
    table.text()
}

/// A device in a dry run.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredDevice<'a> {
    /// What it would hold.
    pub device: &'a AccountedDevice,
    /// The same with ggml-alloc, if that is known.
    pub ggml_alloc: Option<Sums>,
    /// What of it takes memory only as it is used.
    pub on_demand: Option<Sums>,
    /// The bytes of its largest buffer.
    pub largest: Bytes,
}

/// Formats what devices would hold as text.
pub fn measured_devices(unit: SizeUnit, devices: &[MeasuredDevice<'_>]) -> String {
    let mut table = Grid::new(&[&*format!("device, {}", unit.name())], &[&PARTS[..], &["largest buffer"]].concat());
    let mut add = |name: &str, sums: &Sums, largest: &str| {
        let sizes = parts(sums).map(|bytes| Cell::new(&unit.text(bytes)));
        table.add([Cell::new(name)].into_iter().chain(sizes).chain([Cell::new(largest)]));
    };
    for MeasuredDevice { device, ggml_alloc, on_demand, largest } in devices {
        add(&device.name, &device.sums, &unit.text(*largest));
        for (name, sums) in [("  with ggml-alloc", ggml_alloc), ("  of it on demand", on_demand)] {
            if let Some(sums) = sums {
                add(name, sums, "");
            }
        }
    }
    table.text()
}

/// Returns the devices, with the sums of all if that is asked for and there are several.
fn devices(accounting: &Accounting, with_all: bool) -> Grid {
    let mut table = Grid::new(&["device"], &[&PARTS[..], &["free"]].concat());
    let mut add = |name: Cell, sums: &Sums, free: Cell| {
        table.add([name].into_iter().chain(parts(sums).map(Cell::bytes)).chain([free]));
    };
    for device in &accounting.devices {
        let free = device.free.map_or_else(|| Cell::new("-"), Cell::bytes);
        add(Cell::new(&device.name).with_title(&device.description), &device.sums, free);
    }
    if with_all && accounting.devices.len() > 1 {
        add(Cell::new("all"), &accounting.sums(), Cell::new(""));
    }
    table
}

fn buffers(accounting: &Accounting) -> Grid {
    let mut table = Grid::new(&["buffer", "device", "type", "usage"], &[&PARTS[..], &["resident"]].concat());
    for buffer in &accounting.buffers {
        let usage = if buffer.mapped { "mapped" } else { buffer.usage.name() };
        let names = [&buffer.id.to_string(), &buffer.device, &buffer.buffer_type, usage].map(Cell::new);
        let resident = buffer.resident.map_or_else(|| Cell::new("-"), Cell::bytes);
        table.add(names.into_iter().chain(parts(&buffer.sums).map(Cell::bytes)).chain([resident]));
    }
    table
}

/// Returns the tensors of each graph, and those that no graph has, with titles.
fn tensors(accounting: &Accounting) -> impl Iterator<Item = (String, &[AccountedTensor])> {
    let of_graphs = accounting.graphs.iter().map(|graph| {
        let title = format!("graph of allocator {}: {} leafs, {} nodes", graph.allocator, graph.leafs, graph.nodes);
        (title, &graph.tensors[..])
    });
    let unread = Some(&accounting.unread[..]).filter(|unread| !unread.is_empty());
    of_graphs.chain(unread.map(|unread| ("tensors that no graph has".to_owned(), unread)))
}

fn table(tensors: &[AccountedTensor]) -> Grid {
    let names = ["tensor", "view of", "class", "op", "elements", "executes", "resides", "type"];
    let mut table = Grid::new(&names, &["buffer", "offset", "bytes", "steps"]);
    for tensor in tensors {
        let [columns, rows, third, fourth] = tensor.ne;
        table.add([
            Cell::new(&tensor.name),
            Cell::maybe(tensor.view_of.as_ref()),
            Cell::new(tensor.class.name()),
            Cell::new(&tensor.op),
            Cell::new(&format!("{} [{columns}, {rows}, {third}, {fourth}]", tensor.element)),
            Cell::maybe(tensor.executes.as_ref()),
            Cell::maybe(tensor.resides.as_ref()),
            Cell::maybe(tensor.buffer_type.as_ref()),
            Cell::maybe(tensor.location.map(|location| location.buffer)),
            Cell::maybe(tensor.location.map(|location| location.offset)),
            Cell::bytes(tensor.bytes),
            Cell::maybe(tensor.steps.map(|steps| format!("{}-{}", steps.first, steps.last))),
        ]);
    }
    table
}

/// The style of [`accounting_html`].
pub const ACCOUNTING_STYLE: &str = "
.accounting { font-size: 13px; overflow: auto; max-height: 60vh; }
.accounting table { border-collapse: collapse; margin: 6px 0 14px; }
.accounting tr:first-child { font-weight: bold; }
.accounting td { padding: 2px 10px 2px 0; text-align: left; white-space: nowrap; }
.accounting .n { text-align: right; font-variant-numeric: tabular-nums; }
.accounting .shares { display: flex; width: 420px; max-width: 100%; height: 12px; background: #8883; border-radius: 3px; overflow: hidden; }
.accounting .shares i { display: block; height: 100%; }
.accounting figure { margin: 6px 0 14px; }
.accounting svg { display: block; max-width: 100%; height: auto; }
.accounting path.held { fill: var(--live); }
.accounting svg text { font: 11px sans-serif; fill: currentColor; }
.accounting path.resident { fill: none; stroke: var(--accent); stroke-width: 2; }
.accounting span.held { border-bottom: 3px solid var(--live); }
.accounting span.resident { border-bottom: 3px solid var(--accent); }
.accounting .swatch { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin: 0 4px 0 10px; }
";

/// Formats the devices, buffers and tensors as a part of a page, without a script.
pub fn accounting_html(accounting: &Accounting) -> String {
    let of_tensors = |(title, tensors): (String, &[AccountedTensor])| {
        format!("<details><summary>{title}</summary>{}</details>\n", table(tensors).html(|_| None))
    };
    let tensors: String = tensors(accounting).map(of_tensors).collect();
    format!("<div class=\"accounting\">\n{}{tensors}</div>\n", devices_html(accounting))
}

/// Formats what the devices of a process that runs hold, without the tensors.
pub fn live_html(accounting: &Accounting) -> String {
    format!("<div class=\"accounting\">\n{}</div>\n", devices_html(accounting))
}

/// Formats the devices, now and over time, and the buffers.
fn devices_html(accounting: &Accounting) -> String {
    let entry = |(name, colour, _): (&str, &str, Bytes)| {
        format!("<span class=\"swatch\" style=\"background:{colour}\"></span>{name}")
    };
    let legend: String = coloured(&Sums::default()).map(entry).collect();
    let devices = devices(accounting, false).html(|device| accounting.devices.get(device).map(shares));
    let over_time = samples(accounting) + &histories(accounting) + &turns(accounting);
    let buffers = buffers(accounting).html(|_| None);
    format!("<p>{legend}</p>\n{devices}{over_time}{buffers}")
}

/// Returns the classes and rounding, each with its colour and its bytes.
fn coloured(sums: &Sums) -> impl Iterator<Item = (&'static str, &'static str, Bytes)> {
    let colours = ["#4477aa", "#66aa55", "#dd8833", "#aa4499"].into_iter();
    let classes = MemoryClass::ALL.map(|class| (class.name(), sums.of(class)));
    let classes = classes.into_iter().zip(colours).map(|((name, bytes), colour)| (name, colour, bytes));
    classes.chain([("rounding", "#999999", sums.rounding)])
}

/// Draws the content of a device as shares of its memory, or of the held bytes if these are more or its memory is
/// unknown.
fn shares(device: &AccountedDevice) -> String {
    let all = device.memory.unwrap_or(0).max(device.sums.total()).max(1);
    let share = |(name, colour, bytes): (&str, &str, Bytes)| {
        let share = as_float(bytes) / as_float(all) * 100.0;
        format!("<i style=\"width:{share:.3}%;background:{colour}\" title=\"{name}: {bytes} bytes\"></i>")
    };
    let parts: String = coloured(&device.sums).filter(|(.., bytes)| *bytes > 0).map(share).collect();
    format!("<div class=\"shares\">{parts}</div>")
}
