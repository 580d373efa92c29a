//! An offload plan as text and as JSON.

use std::fmt::Write;

use lastuse::offload::device::Device;
use lastuse::offload::item::Item;
use lastuse::offload::planner::{OffloadPlan, Place, Shortage, Usage};
use serde_json::{Value, json};

use crate::output::counted;
use crate::report::offload_text;

/// What arguments hold for, of graphs that were captured.
pub const OF_GRAPHS: &str = "for the program that was captured, with lastuse and its default rules, and with -c, -b, -ub, -np, -fa and cache types as \
                             captured";

/// What they hold for, of a program.
pub const OF_PROGRAM: &str = "behind the program's own arguments, without its -nkvo, -ot, --n-cpu-moe and --n-cpu-ffn; with lastuse and its default rules";

/// Formats a plan: what each device holds, and the arguments for llama.cpp, which hold for this.
pub fn formatted(
    devices: &[Device],
    items: &[Item],
    placed: &OffloadPlan,
    milliseconds: f64,
    (arguments, hold_for): (&[String], &str),
) -> String {
    let gain: f64 = items.iter().map(|item| item.benefit).sum();
    let part = if gain > 0.0 { 100.0 * placed.benefit / gain } else { 0.0 };
    let mut text = offload_text(devices, items, placed);
    let _ = writeln!(
        text,
        "{part:.1} % of the bytes that runs read of weights and caches are on devices; {} measured in {milliseconds:.0} ms",
        counted(placed.measurements.into(), "offload plan")
    );
    if !arguments.is_empty() {
        let _ = writeln!(text, "llama.cpp: {}", quoted(arguments));
        let _ = writeln!(text, "({hold_for}; compute buffers are larger with ggml-alloc)");
    }
    text
}

/// Returns arguments as a shell takes them.
pub fn quoted(arguments: &[String]) -> String {
    let quote = |argument: &String| {
        let is_plain = argument.chars().all(|c| c.is_ascii_alphanumeric() || "-,._".contains(c));
        if is_plain { argument.clone() } else { format!("'{argument}'") }
    };
    arguments.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Returns a plan as JSON.
pub fn offload_json(devices: &[Device], items: &[Item], placed: &OffloadPlan, arguments: &[String]) -> Value {
    let of_device = |(device, usage): (&Device, &Usage)| {
        json!({
            "name": device.name,
            "budget": device.budget,
            "weights": usage.weights,
            "kv": usage.caches,
            "compute": usage.compute,
            "reserve": usage.reserve,
            "total": usage.total(),
        })
    };
    let of_item = |(item, place): (&Item, &Place)| {
        let device = &devices[place.device].name;
        json!({ "name": item.name, "bytes": item.bytes, "layer": item.layer, "device": device })
    };
    json!({
        "format": "lastuse-device-offload",
        "version": 1,
        "fits": true,
        "devices": devices.iter().zip(&placed.usage).map(of_device).collect::<Vec<_>>(),
        "tensors": items.iter().zip(&placed.assignment.0).map(of_item).collect::<Vec<_>>(),
        "llama_cpp": arguments,
        "measurements": placed.measurements,
    })
}

/// Returns which devices are short, as JSON.
pub fn infeasible(shortages: &[Shortage]) -> Value {
    let of = |shortage: &Shortage| {
        json!({ "name": shortage.device, "budget": shortage.budget, "needed": shortage.needed,
            "short": shortage.needed.saturating_sub(shortage.budget) })
    };
    let shortages: Vec<Value> = shortages.iter().map(of).collect();
    json!({ "format": "lastuse-device-offload", "version": 1, "fits": false, "shortages": shortages })
}
