//! The best plan of each kind, as a table and as JSON.

use lastuse::offload::device::Device;
use lastuse::offload::planner::OffloadPlan;
use lastuse::placement::Bytes;
use serde_json::{Value, json};

use super::kinds::{Kind, Planned};
use super::per_token::PerToken;
use super::report::quoted;
use crate::output::titled;
use crate::report::{Table, fixed};

/// The most letters of arguments that the table has.
const MOST_LETTERS: usize = 48;

/// A plan, and what it means for a token.
pub struct Row {
    pub planned: Planned,
    pub per_token: PerToken,
}

/// Returns the bytes of a device that a plan leaves, where it has a budget.
fn free(devices: &[Device], plan: &OffloadPlan, at: usize) -> Option<Bytes> {
    devices[at].budget.map(|budget| budget.saturating_sub(plan.usage[at].total()))
}

/// Formats a line for each kind; a star marks the one whose arguments follow.
pub fn kinds_text(devices: &[Device], rows: &[Row], chosen: Kind) -> String {
    let mark = |row: &Row| if row.planned.kind == chosen { "*" } else { "" };
    let titles: Vec<String> = devices.iter().map(|device| format!("free on {}", device.name)).collect();
    let mut table = Table::new().texts("kind", 0, move |row: &Row| format!("{}{}", row.planned.kind.name(), mark(row)));
    for (at, title) in titles.iter().enumerate().filter(|&(at, _)| devices[at].budget.is_some()) {
        table = table.numbers(title, 0, move |row: &Row| fixed(free(devices, &row.planned.plan, at).unwrap_or(0)));
    }
    let table = table
        .numbers("read on devices", 0, |row: &Row| format!("{:.1} %", 100.0 * row.per_token.on_devices))
        .numbers("moved per token", 0, |row: &Row| fixed(row.per_token.moved))
        .texts("arguments", 0, |row: &Row| shortened(&quoted(&row.planned.arguments)));
    format!("{}\n", titled(&table.text(rows)))
}

fn shortened(arguments: &str) -> String {
    match arguments.char_indices().nth(MOST_LETTERS) {
        Some((end, _)) => format!("{}...", &arguments[..end]),
        None => arguments.to_owned(),
    }
}

/// Returns the plans as JSON.
pub fn kinds_json(devices: &[Device], rows: &[Row], chosen: Kind) -> Value {
    let of_row = |row: &Row| {
        let Row { planned, per_token } = row;
        let of_device =
            |(at, device): (usize, &Device)| json!({ "name": device.name, "free": free(devices, &planned.plan, at) });
        json!({
            "kind": planned.kind.name(),
            "chosen": planned.kind == chosen,
            "devices": devices.iter().enumerate().map(of_device).collect::<Vec<_>>(),
            "read_on_devices": per_token.on_devices,
            "moved_per_token": per_token.moved,
            "llama_cpp": planned.arguments,
        })
    };
    Value::Array(rows.iter().map(of_row).collect())
}
