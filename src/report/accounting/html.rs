//! An accounting as a part of a page, and as a page. It has no script and loads nothing.

use std::fmt::Write;

use crate::offload::accounting::{AccountedDevice, AccountedTensor, Accounting, MemoryClass, Sums};
use crate::placement::Bytes;
use crate::report::sizes::{as_float, fixed};
use crate::report::xml::escaped;

use super::text::{SUM_TITLES, cells};

const STYLE: &str = "
.accounting { font-size: 13px; overflow: auto; max-height: 60vh; }
.accounting table { border-collapse: collapse; margin: 6px 0 14px; }
.accounting th, .accounting td { padding: 2px 10px 2px 0; text-align: left; white-space: nowrap; }
.accounting .n { text-align: right; font-variant-numeric: tabular-nums; }
.accounting .shares { display: flex; width: 420px; max-width: 100%; height: 12px; background: #8883; border-radius: 3px; overflow: hidden; }
.accounting .shares i { display: block; height: 100%; }
.accounting .swatch { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin: 0 4px 0 10px; }
";

const PAGE_STYLE: &str = "
:root { color-scheme: light dark; }
body { margin: 16px 20px; font: 14px/1.4 system-ui, sans-serif; }
h1 { font-size: 19px; }
.accounting { max-height: none; }
";

/// Returns the style of [`accounting_part`].
pub fn accounting_style() -> &'static str {
    STYLE
}

/// Returns the devices, buffers and tensors as HTML.
pub fn accounting_part(accounting: &Accounting) -> String {
    let mut html = String::from("<div class=\"accounting\">\n");
    html.push_str(&legend());
    html.push_str(&devices(accounting));
    html.push_str(&buffers(accounting));
    for graph in &accounting.graphs {
        let allocator = graph.allocator.map_or_else(String::new, |number| format!(" of allocator {number}"));
        let title = format!("Graph{allocator}: {} leafs, {} nodes", graph.leafs, graph.nodes);
        html.push_str(&tensors(accounting, &title, &graph.tensors));
    }
    if !accounting.unread.is_empty() {
        html.push_str(&tensors(accounting, "Tensors that no graph has", &accounting.unread));
    }
    html + "</div>\n"
}

/// Returns a page.
pub fn accounting_page(accounting: &Accounting) -> String {
    let part = accounting_part(accounting);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>What devices hold</title>\n\
         <style>{STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n<h1>What devices hold</h1>\n{part}</body>\n</html>\n"
    )
}

fn colour(class: Option<MemoryClass>) -> &'static str {
    match class {
        Some(MemoryClass::Weights) => "#4477aa",
        Some(MemoryClass::Cache) => "#66aa55",
        Some(MemoryClass::Compute) => "#dd8833",
        Some(MemoryClass::Other) => "#aa4499",
        None => "#999999",
    }
}

/// Returns the classes, then rounding, with the bytes of each.
fn parts(sums: &Sums) -> impl Iterator<Item = (Option<MemoryClass>, Bytes)> {
    let classes = MemoryClass::ALL.map(|class| (Some(class), sums.of(class)));
    classes.into_iter().chain([(None, sums.rounding)])
}

fn legend() -> String {
    let entry = |(class, _): (Option<MemoryClass>, Bytes)| {
        let name = class.map_or("rounding", MemoryClass::name);
        format!("<span class=\"swatch\" style=\"background:{}\"></span>{name}", colour(class))
    };
    format!("<p>{}</p>\n", parts(&Sums::default()).map(entry).collect::<String>())
}

fn devices(accounting: &Accounting) -> String {
    let mut html = format!("<table class=\"devices\">\n{}", titles(&["device"], &SUM_TITLES, &["free", ""]));
    for device in &accounting.devices {
        let free = device.memory.map_or_else(|| "-".to_owned(), |memory| fixed(memory.free));
        let _ = write!(html, "<tr><td title=\"{}\">{}</td>", escaped(&device.description), escaped(&device.name));
        html.push_str(&sizes(&device.sums));
        let _ = writeln!(html, "<td class=\"n\">{free}</td><td>{}</td></tr>", shares(device));
    }
    html + "</table>\n"
}

/// Draws the content of a device as shares of its memory, or of the held bytes where these are more or its memory is
/// unknown.
fn shares(device: &AccountedDevice) -> String {
    let all = device.memory.map_or(0, |memory| memory.total).max(device.sums.total()).max(1);
    let mut html = String::from("<div class=\"shares\">");
    for (class, bytes) in parts(&device.sums).filter(|(_, bytes)| *bytes > 0) {
        let share = as_float(bytes) / as_float(all) * 100.0;
        let name = class.map_or("rounding", MemoryClass::name);
        let _ = write!(
            html,
            "<i style=\"width:{share:.3}%;background:{}\" title=\"{name}: {bytes} bytes\"></i>",
            colour(class)
        );
    }
    html + "</div>"
}

fn buffers(accounting: &Accounting) -> String {
    let first = ["buffer", "device", "type", "usage"];
    let mut html = format!("<table class=\"buffers\">\n{}", titles(&first, &SUM_TITLES, &[]));
    for buffer in &accounting.buffers {
        let device = accounting.device_name(Some(buffer.device)).unwrap_or_default();
        let usage = if buffer.is_mapped { "mapped" } else { buffer.usage.name() };
        let (device, buffer_type) = (escaped(device), escaped(&buffer.buffer_type));
        let _ = write!(html, "<tr><td>{}</td><td>{device}</td><td>{buffer_type}</td><td>{usage}</td>", buffer.id);
        let _ = writeln!(html, "{}</tr>", sizes(&buffer.sums));
    }
    html + "</table>\n"
}

fn tensors(accounting: &Accounting, title: &str, tensors: &[AccountedTensor]) -> String {
    let first = ["tensor", "class", "operation", "executes", "resides", "type"];
    let mut html = format!(
        "<details><summary>{}</summary><table class=\"tensors\">\n{}",
        escaped(title),
        titles(&first, &["buffer", "offset", "bytes"], &["steps"])
    );
    for tensor in tensors {
        let or_dash = |text: Option<&str>| escaped(text.unwrap_or("-"));
        let resides = accounting.device_name(tensor.device);
        let texts = [
            escaped(&tensor.name),
            tensor.class.name().to_owned(),
            escaped(&tensor.op),
            or_dash(tensor.executes.as_deref()),
            or_dash(resides),
            or_dash(tensor.buffer_type.as_deref()),
        ];
        let numbers = [
            tensor.location.map(|location| location.buffer),
            tensor.location.map(|location| location.offset),
            Some(tensor.bytes),
        ];
        let steps = tensor.steps.map_or_else(|| "-".to_owned(), |steps| format!("{}-{}", steps.first, steps.last));
        html.push_str("<tr>");
        texts.iter().for_each(|text| _ = write!(html, "<td>{text}</td>"));
        for number in numbers {
            let number = number.map_or_else(|| "-".to_owned(), |number| number.to_string());
            let _ = write!(html, "<td class=\"n\">{number}</td>");
        }
        let _ = writeln!(html, "<td class=\"n\">{steps}</td></tr>");
    }
    html + "</table></details>\n"
}

/// Returns a row of titles, the second of which are above numbers.
fn titles(first: &[&str], numbers: &[&str], last: &[&str]) -> String {
    let mut html = String::from("<tr>");
    first.iter().for_each(|title| _ = write!(html, "<th>{title}</th>"));
    numbers.iter().chain(last).for_each(|title| _ = write!(html, "<th class=\"n\">{title}</th>"));
    html + "</tr>\n"
}

fn sizes(sums: &Sums) -> String {
    let cell = |bytes: Bytes| format!("<td class=\"n\" title=\"{bytes} bytes\">{}</td>", fixed(bytes));
    cells(sums).map(cell).concat()
}
