//! A offload, as text: a bar for each device, and which items it has.

use std::collections::BTreeMap;
use std::fmt::Write;

use lastuse::offload::device::Device;
use lastuse::offload::item::{Item, ItemClass};
use lastuse::offload::planner::{OffloadPlan, Usage};
use lastuse::placement::Bytes;

use super::sizes::{as_float, exact, fixed};

/// Characters of a bar.
const BAR: usize = 40;

/// Formats an offload plan: for each device its bytes, a bar, and its items by use.
pub fn offload_text(devices: &[Device], items: &[Item], placed: &OffloadPlan) -> String {
    let mut text = String::new();
    for (at, (device, usage)) in devices.iter().zip(&placed.usage).enumerate() {
        let limit = device.budget.map_or("no limit".to_owned(), |budget| format!("budget {}", exact(budget)));
        let _ = writeln!(text, "{}: {}, {limit}", device.name, exact(usage.total()));
        if let Some(budget) = device.budget {
            let _ = writeln!(text, "  {}", bar(usage, budget));
        }
        let Usage { weights, caches, compute, reserve } = *usage;
        for (what, bytes) in [("weights", weights), ("caches", caches), ("compute", compute), ("reserve", reserve)] {
            let _ = writeln!(text, "  {what:<8} {:>11}  {bytes:>14}", fixed(bytes));
        }
        if let Some(budget) = device.budget {
            let left = budget.saturating_sub(usage.total());
            let _ = writeln!(text, "  {:<8} {:>11}  {left:>14}", "left", fixed(left));
        }
        text.push_str(&contents(items, placed, at));
    }
    text
}

/// Draws the content of a device: W weights, K caches, C compute buffer, R reserve, and dots for free bytes.
fn bar(usage: &Usage, budget: Bytes) -> String {
    let mut bar = String::new();
    let mut sum: Bytes = 0;
    for (letter, bytes) in [('W', usage.weights), ('K', usage.caches), ('C', usage.compute), ('R', usage.reserve)] {
        sum = sum.saturating_add(bytes);
        let end = as_float(sum) / as_float(budget.max(1)) * as_float(BAR as u64) + 0.5;
        // No f64::round: programs that are linked with this library would get Rust's instead of their own round().
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of characters")]
        let end = (end as usize).min(BAR);
        bar.extend(std::iter::repeat_n(letter, end.saturating_sub(bar.len())));
    }
    format!("[{bar:.<BAR$}] W weights, K caches, C compute, R reserve")
}

/// Lists the classes of items of a device, and the layers that they are of.
fn contents(items: &[Item], placed: &OffloadPlan, device: usize) -> String {
    let mut classes: BTreeMap<&str, (usize, Bytes, Vec<u32>)> = BTreeMap::new();
    for (item, _) in items.iter().zip(&placed.assignment.0).filter(|(_, place)| place.device == device) {
        let (count, bytes, layers) = classes.entry(class_name(item.class)).or_default();
        *count += 1;
        *bytes = bytes.saturating_add(item.bytes);
        layers.extend(item.layer);
    }
    let mut text = String::new();
    for (class, (count, bytes, layers)) in classes {
        let tensors = if count == 1 { "tensor" } else { "tensors" };
        let layers = if layers.is_empty() { String::new() } else { format!(", layers {}", ranges(layers)) };
        let _ = writeln!(text, "  has {class}: {count} {tensors}, {}{layers}", fixed(bytes));
    }
    text
}

/// Returns what items of a class are called.
pub fn class_name(class: ItemClass) -> &'static str {
    match class {
        ItemClass::Attention => "attention",
        ItemClass::Predictor => "predictors",
        ItemClass::FfnNorm => "norms of FFNs",
        ItemClass::Output => "output",
        ItemClass::ValueCache => "caches of values",
        ItemClass::KeyCache => "caches of keys",
        ItemClass::Ffn => "FFNs",
        ItemClass::Embedding => "embedding",
        ItemClass::Other => "others",
    }
}

/// Formats numbers as ranges: "0-3, 7".
fn ranges(mut numbers: Vec<u32>) -> String {
    numbers.sort_unstable();
    numbers.dedup();
    let mut found: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match found.last_mut() {
            Some((_, end)) if *end + 1 == number => *end = number,
            _ => found.push((number, number)),
        }
    }
    let range = |(start, end): &(u32, u32)| if start == end { start.to_string() } else { format!("{start}-{end}") };
    found.iter().map(range).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lastuse::offload::item::ItemKind;
    use lastuse::offload::planner::{Assignment, Place};

    #[test]
    fn devices_are_listed_with_their_bytes_and_items() {
        let item = |layer: u32, class: ItemClass| Item {
            name: format!("blk.{layer}"),
            kind: ItemKind::Weight,
            class,
            bytes: 1000,
            layer: Some(layer),
            benefit: 1.0,
            pinned: None,
            rows: None,
            is_on_host: false,
        };
        let items: Vec<Item> = [0, 1, 2, 4].map(|layer| item(layer, ItemClass::Ffn)).to_vec();
        let devices = [Device { budget: Some(8000), ..Device::new("gpu") }, Device::new("cpu")];
        let places = [0, 0, 1, 0].map(|device| Place { device, rows: None });
        let usage = [
            Usage { weights: 3000, caches: 0, compute: 1000, reserve: 2000 },
            Usage { weights: 1000, ..Usage::default() },
        ];
        let (assignment, usage) = (Assignment(places.to_vec()), usage.to_vec());
        let text = offload_text(&devices, &items, &OffloadPlan { assignment, usage, benefit: 3.0, measurements: 2 });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "gpu: 5.86 KiB (6000 bytes), budget 7.81 KiB (8000 bytes)");
        assert!(lines[1].contains("[WWWWWWWWWWWWWWWCCCCCRRRRRRRRRR..........]"), "{}", lines[1]);
        assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>(), ["weights", "2.93", "KiB", "3000"]);
        assert_eq!(lines[6].split_whitespace().collect::<Vec<_>>(), ["left", "1.95", "KiB", "2000"]);
        assert_eq!(lines[7], "  has FFNs: 3 tensors, 2.93 KiB, layers 0-1, 4");
        assert_eq!(lines[8], "cpu: 1000 bytes, no limit");
        assert_eq!(lines.last(), Some(&"  has FFNs: 1 tensor, 1000 B, layers 2"));
    }

    #[test]
    fn bars_of_full_and_of_empty_devices_have_one_width() {
        let full = Usage { weights: u64::MAX, caches: 5, compute: 5, reserve: 5 };
        assert!(bar(&full, 10).starts_with(&format!("[{}]", "W".repeat(BAR))));
        assert!(bar(&Usage::default(), 0).starts_with(&format!("[{}]", ".".repeat(BAR))));
    }
}
