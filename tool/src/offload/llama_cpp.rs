//! Offload plans that llama.cpp can make, and its arguments for them.

use std::collections::{BTreeMap, BTreeSet};

use lastuse::offload::captured::LayerHomes;
use lastuse::offload::device::Device;
use lastuse::offload::item::{Item, ItemClass, ItemKind};
use lastuse::offload::planner::{Assignment, Measure, NotPlaced, OffloadPlan, Request, Spread, place};
use lastuse::placement::Bytes;

use super::first_layers::FirstLayers;
use super::patterns::{of_numbers, one_of};

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

/// Places single items with caches on devices and with caches on the host, or whole layers. An output head that is the token
/// embedding too is with the output, or on the host. Returns what gains most.
///
/// # Errors
/// Why none is possible: what is told of the one that lacks the fewest bytes.
pub fn best_variant(
    request: &Request<'_>,
    whole_layers: bool,
    measure: &mut dyn Measure,
) -> Result<OffloadPlan, NotPlaced> {
    let host = request.host();
    let has_free_caches = request.items.iter().any(|item| item.kind == ItemKind::Cache && item.pinned.is_none());
    let mut variants = match (whole_layers, has_free_caches) {
        (true, _) => vec![request.items.to_vec()],
        (false, false) => vec![with_pinned_caches(request, true)],
        (false, true) => [true, false].map(|is_on_devices| with_pinned_caches(request, is_on_devices)).to_vec(),
    };
    if request.items.iter().any(|item| item.is_on_host && item.pinned.is_none()) {
        let on_host: Vec<_> = variants.iter().map(|items| with_head_on_host(items, host)).collect();
        // No layer is behind the last device, so the output may be there wherever the layers are.
        let heads = variants.iter_mut().flatten().filter(|item| item.is_on_host && !whole_layers);
        heads.for_each(|head| head.pinned = Some(host.saturating_sub(1)));
        variants.extend(on_host);
    }
    let spread = if whole_layers { Spread::Layers } else { request.spread };
    let placed: Vec<_> =
        variants.iter().map(|items| place(&Request { items, spread, ..*request }, &mut *measure)).collect();
    let measurements = placed.iter().flatten().map(|placed| placed.measurements).sum();
    let mut best: Option<OffloadPlan> = None;
    let mut nearest: Option<NotPlaced> = None;
    for variant in placed {
        match variant {
            Ok(placed) if best.as_ref().is_none_or(|best| placed.benefit > best.benefit) => best = Some(placed),
            Ok(_) => {}
            Err(why) if nearest.as_ref().is_none_or(|nearest| short(&why) < short(nearest)) => nearest = Some(why),
            Err(_) => {}
        }
    }
    match best {
        Some(best) => Ok(OffloadPlan { measurements, ..best }),
        None => Err(nearest.unwrap_or(NotPlaced::Unplaceable)),
    }
}

/// Returns how many bytes devices lack.
fn short(why: &NotPlaced) -> Bytes {
    let NotPlaced::Infeasible(shortages) = why else { return 0 };
    shortages.iter().fold(0, |sum: Bytes, shortage| sum.saturating_add(shortage.needed - shortage.budget))
}

/// Returns the items with an output head on the host that is there in any case. With whole layers, the rest of the output goes with
/// the last layer.
fn with_head_on_host(items: &[Item], host: usize) -> Vec<Item> {
    let last = items.iter().filter(|item| item.class != ItemClass::Output).filter_map(|item| item.layer).max();
    let mut items = items.to_vec();
    for item in items.iter_mut().filter(|item| item.class == ItemClass::Output) {
        if item.is_on_host {
            (item.pinned, item.layer) = (Some(host), None);
        } else if item.layer.is_some() {
            item.layer = last;
        }
    }
    items
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

/// Returns the arguments: all layers on the devices (`-ngl`), but for weights that are named (`-ot`); caches on the host
/// (`-nkvo`) where they are; and how many layers each of several devices has (`-ts`). An option may keep weights of the
/// first layers on the host, which are not named then; and operations on weights of the host may have to stay there
/// (`--no-op-offload`).
///
/// llama.cpp has the cache of a layer where the layer is, and numbers the output as a layer behind the last. No arguments
/// if no item is of a layer.
pub fn arguments(
    devices: &[Device],
    items: &[Item],
    assignment: &Assignment,
    kept: Option<&FirstLayers>,
    op_offload: bool,
) -> Vec<String> {
    let host = devices.len() - 1;
    let layers = LayerHomes::of(items, assignment, host);
    let homes = &layers.homes;
    if homes.is_empty() {
        return Vec::new();
    }
    let first = homes.iter().position(|&home| home != host).unwrap_or(homes.len());
    let mut arguments = vec!["-ngl".to_owned(), (homes.len() - first).to_string()];
    if devices.len() > 2 && first < homes.len() {
        let count = |device: usize| homes.iter().filter(|&&home| home == device).count().to_string();
        arguments.extend(["-ts".to_owned(), (0..host).map(count).collect::<Vec<_>>().join(",")]);
    }
    if layers.are_caches_on_host {
        arguments.push("-nkvo".to_owned());
    }
    if let Some(kept) = kept {
        arguments.extend(kept.arguments());
    }
    let is_kept = |item: &Item| kept.is_some_and(|kept| kept.has(item));
    let overrides =
        overrides(devices, items, assignment, |item, device| layers.is_named(item, device) && !is_kept(item));
    if !overrides.is_empty() {
        arguments.extend(["-ot".to_owned(), overrides.join(",")]);
    }
    if !op_offload {
        arguments.push("--no-op-offload".to_owned());
    }
    arguments
}

fn placed<'a>(items: &'a [Item], assignment: &'a Assignment) -> impl Iterator<Item = (&'a Item, usize)> {
    items.iter().zip(&assignment.0).map(|(item, place)| (item, place.device))
}

/// Returns the tensors placed elsewhere than their layer, as patterns of names with buffer types.
fn overrides(
    devices: &[Device],
    items: &[Item],
    assignment: &Assignment,
    is_named: impl Fn(&Item, usize) -> bool,
) -> Vec<String> {
    let host = devices.len() - 1;
    let buffer_type = |device: usize| if device == host { "CPU" } else { &devices[device].name };
    let mut layers_of: BTreeMap<(usize, String, String), BTreeSet<u32>> = BTreeMap::new();
    let mut single = Vec::new();
    let weights = placed(items, assignment).filter(|(item, _)| item.kind == ItemKind::Weight);
    for (item, device) in weights.filter(|&(item, device)| is_named(item, device)) {
        let of_layer = item.layer.filter(|_| item.class != ItemClass::Output);
        let parts = of_layer.and_then(|layer| Some((layer, item.name.split_once(&format!("blk.{layer}."))?)));
        match parts {
            Some((layer, (before, after))) => {
                layers_of.entry((device, escaped(before), escaped(after))).or_default().insert(layer);
            }
            None => single.push(format!("^{}$={}", escaped(&item.name), buffer_type(device))),
        }
    }
    // Tensors of the same layers share a pattern.
    let mut names_of: BTreeMap<(usize, String, BTreeSet<u32>), Vec<String>> = BTreeMap::new();
    for ((device, before, after), layers) in layers_of {
        names_of.entry((device, before, layers)).or_default().push(after);
    }
    let groups = names_of.into_iter().map(|((device, before, layers), names)| {
        format!("^{before}blk\\.{}\\.{}$={}", of_numbers(&layers), one_of(&names), buffer_type(device))
    });
    groups.chain(single).collect()
}

/// Returns a regular expression that matches a name.
fn escaped(name: &str) -> String {
    name.replace('.', "\\.")
}

#[cfg(test)]
mod tests {
    use lastuse::offload::planner::Place;

    use super::*;

    fn item(name: &str, layer: Option<u32>, class: ItemClass) -> Item {
        let kind = if name.starts_with("cache") { ItemKind::Cache } else { ItemKind::Weight };
        Item {
            name: name.to_owned(),
            kind,
            class,
            bytes: 10,
            layer,
            benefit: 1.0,
            pinned: None,
            rows: None,
            is_on_host: false,
        }
    }

    /// Two layers, each with attention, an FFN and a cache; the embedding and the output.
    fn model() -> Vec<Item> {
        let mut items = vec![item("token_embd.weight", None, ItemClass::Embedding)];
        for layer in 0..2 {
            items.push(item(&format!("blk.{layer}.attn_q.weight"), Some(layer), ItemClass::Attention));
            items.push(item(&format!("blk.{layer}.ffn_up.weight"), Some(layer), ItemClass::Ffn));
            items.push(item(&format!("cache_k_l{layer}"), Some(layer), ItemClass::KeyCache));
        }
        items.push(item("output.weight", None, ItemClass::Output));
        items
    }

    fn of(names: &[&str], placed: [usize; 8]) -> String {
        let devices: Vec<Device> = names.iter().map(|name| Device::new(*name)).collect();
        let places = placed.map(|device| Place { device, rows: None });
        arguments(&devices, &model(), &Assignment(places.to_vec()), None, true).join(" ")
    }

    #[test]
    fn whole_layers_need_no_patterns() {
        assert_eq!(of(&["gpu", "cpu"], [1, 1, 1, 1, 1, 1, 1, 1]), "-ngl 0");
        assert_eq!(of(&["gpu", "cpu"], [1, 0, 0, 0, 0, 0, 0, 0]), "-ngl 3");
        assert_eq!(of(&["gpu", "cpu"], [1, 1, 1, 1, 0, 0, 0, 0]), "-ngl 2");
        assert_eq!(of(&["a", "b", "cpu"], [2, 0, 0, 0, 1, 1, 1, 1]), "-ngl 3 -ts 1,2");
    }

    #[test]
    fn embeddings_that_are_the_head_too_are_named_where_they_are_not_with_the_output() {
        let mut items = model();
        items.last_mut().expect("the output").name = "output_norm.weight".to_owned();
        items.push(Item { is_on_host: true, ..item("token_embd.weight", None, ItemClass::Output) });
        items[0].class = ItemClass::Embedding;
        let of = |head: usize, others: usize| {
            let places = (0..items.len()).map(|at| {
                if at == 0 {
                    1
                } else if at + 1 < items.len() {
                    others
                } else {
                    head
                }
            });
            let places = places.map(|device| Place { device, rows: None }).collect();
            arguments(&[Device::new("Vulkan0"), Device::new("cpu")], &items, &Assignment(places), None, true).join(" ")
        };
        assert_eq!(of(0, 0), "-ngl 3");
        assert_eq!(of(1, 0), r"-ngl 3 -ot ^token_embd\.weight$=CPU");
        assert_eq!(of(1, 1), "-ngl 0");
    }

    #[test]
    fn weights_that_are_elsewhere_than_their_layers_are_named() {
        let some_ffns = of(&["Vulkan0", "cpu"], [1, 0, 1, 0, 0, 1, 0, 0]);
        assert_eq!(some_ffns, r"-ngl 3 -ot ^blk\.[01]\.ffn_up\.weight$=CPU");
        let without_output = of(&["Vulkan0", "cpu"], [1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(without_output, r"-ngl 3 -ot ^output\.weight$=CPU");
        assert_eq!(of(&["Vulkan0", "cpu"], [1, 0, 0, 1, 0, 0, 1, 0]), "-ngl 3 -nkvo");
    }
}
