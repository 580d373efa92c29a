//! Offloads that llama.cpp can make: it has the cache of a layer where the layer is, or all caches on the host.

use lastuse::offload::item::{Item, ItemClass, ItemKind};
use lastuse::offload::planner::{Measure, NotPlaced, OffloadPlan, Request, Spread, place};
use lastuse::placement::Bytes;

/// Pins the embedding of tokens, of which a run reads a few rows, to the host. With whole layers, the output is a layer
/// behind the last.
pub fn prepare(items: &mut [Item], host: usize, whole_layers: bool) {
    let behind = items.iter().filter_map(|item| item.layer).max().map_or(0, |last| last + 1);
    for item in items {
        if item.class == ItemClass::Embedding {
            item.pinned = Some(host);
        }
        if whole_layers && item.class == ItemClass::Output && item.layer.is_none() {
            item.layer = Some(behind);
        }
    }
}

/// Places items with caches on devices and with caches on the host, and returns what gains more.
///
/// # Errors
/// Why neither is possible; the first says it.
pub fn best_variant(
    request: &Request<'_>,
    whole_layers: bool,
    measure: &mut dyn Measure,
) -> Result<OffloadPlan, NotPlaced> {
    if whole_layers {
        return place(&Request { spread: Spread::Layers, ..*request }, measure);
    }
    let mut variants = Vec::new();
    for is_on_devices in [true, false] {
        let items = with_pinned_caches(request, is_on_devices);
        variants.push(place(&Request { items: &items, ..*request }, measure));
        if !request.items.iter().any(|item| item.kind == ItemKind::Cache) {
            break;
        }
    }
    let measurements = variants.iter().flatten().map(|placed| placed.measurements).sum();
    let mut best: Option<OffloadPlan> = None;
    let mut first_error = None;
    for variant in variants {
        match variant {
            Ok(placed) if best.as_ref().is_none_or(|best| placed.benefit > best.benefit) => best = Some(placed),
            Ok(_) => {}
            Err(why) => first_error = Some(why),
        }
    }
    match (best, first_error) {
        (Some(best), _) => Ok(OffloadPlan { measurements, ..best }),
        (None, Some(why)) => Err(why),
        (None, None) => Err(NotPlaced::Unplaceable),
    }
}

/// Returns the items with their caches on the host, or on the devices: each device has those of contiguous layers, by its
/// part of all budgets.
fn with_pinned_caches(request: &Request<'_>, is_on_devices: bool) -> Vec<Item> {
    let host = request.host();
    let layers = request.items.iter().filter_map(|item| item.layer).max().map_or(1, |last| u64::from(last) + 1);
    let budgets: Vec<u128> =
        request.devices[..host].iter().map(|device| u128::from(device.budget.unwrap_or(Bytes::MAX))).collect();
    let all: u128 = budgets.iter().sum::<u128>().max(1);
    let home = |layer: u64| {
        let mut sum = 0;
        let reaches = |budget: &u128| {
            sum += budget;
            u128::from(layer) * all < sum * u128::from(layers)
        };
        budgets.iter().position(reaches).unwrap_or(host - 1)
    };
    let mut items = request.items.to_vec();
    for item in items.iter_mut().filter(|item| item.kind == ItemKind::Cache && item.pinned.is_none()) {
        item.pinned = Some(if is_on_devices { home(u64::from(item.layer.unwrap_or(0))) } else { host });
    }
    items
}
