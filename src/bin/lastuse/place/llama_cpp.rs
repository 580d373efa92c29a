//! The arguments by which llama.cpp places weights and caches alike.

use std::collections::{BTreeMap, BTreeSet};

use lastuse::devices::captured::layer_device;
use lastuse::devices::device::Device;
use lastuse::devices::item::{Item, ItemClass, ItemKind};
use lastuse::devices::planner::Assignment;

/// Returns the arguments: all layers on the devices (`-ngl`), but for weights that are named (`-ot`); caches on the host
/// (`-nkvo`) where they are; and how many layers each of several devices has (`-ts`).
///
/// llama.cpp has the cache of a layer where the layer is, and numbers the output as a layer behind the last. No arguments
/// if no item is of a layer.
pub fn arguments(devices: &[Device], items: &[Item], assignment: &Assignment) -> Vec<String> {
    let host = devices.len() - 1;
    let in_layers = items.iter().filter(|item| item.class != ItemClass::Output);
    let layers = in_layers.filter_map(|item| item.layer).max().map_or(0, |last| last + 1);
    if layers == 0 {
        return Vec::new();
    }
    let homes = layer_homes(items, assignment, host, layers);
    let first = homes.iter().position(|&home| home != host).unwrap_or(homes.len());
    let mut arguments = vec!["-ngl".to_owned(), (homes.len() - first).to_string()];
    if devices.len() > 2 && first < homes.len() {
        let count = |device: usize| homes.iter().filter(|&&home| home == device).count().to_string();
        arguments.extend(["-ts".to_owned(), (0..host).map(count).collect::<Vec<_>>().join(",")]);
    }
    let caches: BTreeSet<bool> = placed(items, assignment)
        .filter(|(item, _)| item.kind == ItemKind::Cache)
        .map(|(_, device)| device == host)
        .collect();
    if first < homes.len() && caches == BTreeSet::from([true]) {
        arguments.push("-nkvo".to_owned());
    }
    let overrides = overrides(devices, items, assignment, &homes);
    if !overrides.is_empty() {
        arguments.extend(["-ot".to_owned(), overrides.join(",")]);
    }
    arguments
}

fn placed<'a>(items: &'a [Item], assignment: &'a Assignment) -> impl Iterator<Item = (&'a Item, usize)> {
    items.iter().zip(&assignment.0).map(|(item, place)| (item, place.device))
}

/// Returns the device of each layer, and of the output behind them. Behind the first that is on a device, llama.cpp has
/// none on the host; one whose tensors are there is then on the device of the one before.
fn layer_homes(items: &[Item], assignment: &Assignment, host: usize, layers: u32) -> Vec<usize> {
    let home = |layer: u32| {
        let is_of_layer = |item: &Item| match item.layer {
            _ if item.class == ItemClass::Output => layer == layers,
            of => of == Some(layer),
        };
        layer_device(items, assignment, host, is_of_layer).unwrap_or(host)
    };
    let mut homes: Vec<usize> = (0..=layers).map(home).collect();
    for layer in 1..homes.len() {
        if homes[layer] == host {
            homes[layer] = homes[layer - 1];
        }
    }
    homes
}

/// Returns what is elsewhere than its layer, as patterns of names with buffer types.
fn overrides(devices: &[Device], items: &[Item], assignment: &Assignment, homes: &[usize]) -> Vec<String> {
    let host = devices.len() - 1;
    let mut elsewhere: BTreeMap<(usize, String, String), Vec<u32>> = BTreeMap::new();
    let mut single = Vec::new();
    for (item, device) in placed(items, assignment).filter(|(item, _)| item.kind == ItemKind::Weight) {
        let buffer_type = if device == host { "CPU" } else { &devices[device].name };
        match item.layer {
            _ if item.class == ItemClass::Output => {
                if homes.last() != Some(&device) {
                    single.push(format!("^{}$={buffer_type}", escaped(&item.name)));
                }
            }
            Some(layer) if homes[layer as usize] == device => {}
            Some(layer) => match item.name.split_once(&format!("blk.{layer}.")) {
                Some((before, after)) => {
                    let pattern = (before.to_owned(), after.to_owned());
                    elsewhere.entry((device, pattern.0, pattern.1)).or_default().push(layer);
                }
                None => single.push(format!("^{}$={buffer_type}", escaped(&item.name))),
            },
            // llama.cpp has the embedding of tokens on the host.
            None if device == host => {}
            None => single.push(format!("^{}$={buffer_type}", escaped(&item.name))),
        }
    }
    let groups = elsewhere.into_iter().map(|((device, before, after), layers)| {
        let buffer_type = if device == host { "CPU" } else { &devices[device].name };
        let layers = layers.iter().map(u32::to_string).collect::<Vec<_>>().join("|");
        format!("^{}blk\\.({layers})\\.{}$={buffer_type}", escaped(&before), escaped(&after))
    });
    groups.chain(single).collect()
}

/// Returns a regular expression that matches a name.
fn escaped(name: &str) -> String {
    name.replace('.', "\\.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lastuse::devices::planner::Place;

    fn item(name: &str, layer: Option<u32>, class: ItemClass) -> Item {
        let kind = if name.starts_with("cache") { ItemKind::Cache } else { ItemKind::Weight };
        Item { name: name.to_owned(), kind, class, bytes: 10, layer, benefit: 1.0, pinned: None, rows: None }
    }

    /// Two layers, each with attention, an FFN and a cache; the embedding and the output.
    fn model() -> Vec<Item> {
        let mut items = vec![item("token_embd.weight", None, ItemClass::Other)];
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
        arguments(&devices, &model(), &Assignment(places.to_vec())).join(" ")
    }

    #[test]
    fn whole_layers_need_no_patterns() {
        assert_eq!(of(&["gpu", "cpu"], [1, 1, 1, 1, 1, 1, 1, 1]), "-ngl 0");
        assert_eq!(of(&["gpu", "cpu"], [1, 0, 0, 0, 0, 0, 0, 0]), "-ngl 3");
        assert_eq!(of(&["gpu", "cpu"], [1, 1, 1, 1, 0, 0, 0, 0]), "-ngl 2");
        assert_eq!(of(&["a", "b", "cpu"], [2, 0, 0, 0, 1, 1, 1, 1]), "-ngl 3 -ts 1,2");
    }

    #[test]
    fn weights_that_are_elsewhere_than_their_layers_are_named() {
        let some_ffns = of(&["Vulkan0", "cpu"], [1, 0, 1, 0, 0, 1, 0, 0]);
        assert_eq!(some_ffns, r"-ngl 3 -ot ^blk\.(0|1)\.ffn_up\.weight$=CPU");
        assert_eq!(of(&["Vulkan0", "cpu"], [0, 0, 0, 0, 0, 0, 0, 0]), r"-ngl 3 -ot ^token_embd\.weight$=Vulkan0");
        let without_output = of(&["Vulkan0", "cpu"], [1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(without_output, r"-ngl 3 -ot ^output\.weight$=CPU");
        assert_eq!(of(&["Vulkan0", "cpu"], [1, 0, 0, 1, 0, 0, 1, 0]), "-ngl 3 -nkvo");
    }
}
