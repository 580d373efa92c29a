//! Which device a layer of a model is on, as llama.cpp has it.

use std::collections::BTreeMap;

use crate::offload::device::DeviceIndex;
use crate::offload::item::{Item, ItemClass, ItemKind};
use crate::offload::planner::Assignment;
use crate::placement::Bytes;

/// Returns the device of those items for which `is_of_layer` is true: that of their cache where it is not on the host, as
/// llama.cpp has the cache of a layer where the layer is, and otherwise that of most bytes of their weights. `None` without
/// items.
pub fn layer_device(
    items: &[Item],
    assignment: &Assignment,
    host: DeviceIndex,
    is_of_layer: impl Fn(&Item) -> bool,
) -> Option<DeviceIndex> {
    let mut bytes: BTreeMap<DeviceIndex, Bytes> = BTreeMap::new();
    for (item, place) in items.iter().zip(&assignment.0).filter(|(item, _)| is_of_layer(item)) {
        if item.kind == ItemKind::Cache && place.device != host {
            return Some(place.device);
        }
        let counted = if item.kind == ItemKind::Weight { item.bytes } else { 0 };
        let sum = bytes.entry(place.device).or_default();
        *sum = sum.saturating_add(counted);
    }
    bytes.into_iter().max_by_key(|&(_, bytes)| bytes).map(|(device, _)| device)
}

/// Where llama.cpp has layers to make an offload plan; single weights may be elsewhere (`-ot`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerHomes {
    /// The device of each layer, and of the output behind the last: the first layers on the host, then a contiguous range
    /// on each device in their order. Empty if no item is of a layer.
    pub homes: Vec<DeviceIndex>,
    /// All caches are on the host, also those of layers that are on devices (`-nkvo`).
    pub are_caches_on_host: bool,
    /// Some weights are elsewhere than their layer (`-ot`).
    pub has_exceptions: bool,
    host: DeviceIndex,
}

impl LayerHomes {
    /// Returns the homes that need the fewest exceptions. A layer whose cache is on the host is there too, unless all caches
    /// are. Behind the first layer that is on a device, llama.cpp has none on the host and none on an earlier device; one
    /// whose tensors are there is then on the device of the one before.
    pub fn of(items: &[Item], assignment: &Assignment, host: DeviceIndex) -> Self {
        let in_layers = items.iter().filter(|item| item.class != ItemClass::Output);
        let layers = in_layers.filter_map(|item| item.layer).max().map_or(0, |last| last + 1);
        let caches = || items.iter().zip(&assignment.0).filter(|(item, _)| item.kind == ItemKind::Cache);
        let are_some_on_device = caches().any(|(_, place)| place.device != host);
        let has_cache_on_host =
            |layer: u32| caches().any(|(item, place)| item.layer == Some(layer) && place.device == host);
        let home = |layer: u32| {
            let is_of_layer = |item: &Item| match item.layer {
                _ if item.class == ItemClass::Output => layer == layers,
                of => of == Some(layer),
            };
            let device = layer_device(items, assignment, host, is_of_layer);
            device.filter(|_| !are_some_on_device || !has_cache_on_host(layer)).unwrap_or(host)
        };
        let mut homes: Vec<DeviceIndex> = if layers == 0 { Vec::new() } else { (0..=layers).map(home).collect() };
        for layer in 1..homes.len() {
            let before = homes[layer - 1];
            if before != host && (homes[layer] == host || homes[layer] < before) {
                homes[layer] = before;
            }
        }
        let is_any_on_device = homes.iter().any(|&home| home != host);
        let are_caches_on_host = is_any_on_device && caches().next().is_some() && !are_some_on_device;
        let mut found = Self { homes, are_caches_on_host, has_exceptions: false, host };
        let mut weights = items.iter().zip(&assignment.0).filter(|(item, _)| item.kind == ItemKind::Weight);
        found.has_exceptions = weights.any(|(item, place)| found.is_named(item, place.device));
        found
    }

    /// Returns the device that llama.cpp has a weight on by itself: that of its layer. The token embedding, and tensors
    /// of no layer, are on the host.
    pub fn home(&self, item: &Item) -> DeviceIndex {
        let home = match item.layer {
            _ if item.class == ItemClass::Output => self.homes.last(),
            Some(layer) => self.homes.get(layer as usize),
            None => None,
        };
        home.copied().unwrap_or(self.host)
    }

    /// Returns `true` if llama.cpp must be told (`-ot`) to have a weight on this device.
    pub fn is_named(&self, item: &Item, device: DeviceIndex) -> bool {
        self.home(item) != device
    }

    /// Returns `true` if llama.cpp computes batches in pipelines, where all devices can: with several devices, if everything
    /// is on them.
    pub fn has_pipelines(&self) -> bool {
        self.host > 1 && self.is_all_on_devices() && !self.are_caches_on_host && !self.has_exceptions
    }

    /// Returns how many layers, the output among them, are on devices: `-ngl`.
    pub fn on_devices(&self) -> usize {
        self.homes.iter().filter(|&&home| home != self.host).count()
    }

    /// Returns `true` if every layer and the output are on devices.
    pub fn is_all_on_devices(&self) -> bool {
        !self.homes.is_empty() && self.on_devices() == self.homes.len()
    }

    /// Returns the device of a layer; `None` if there is no such layer.
    pub fn of_layer(&self, layer: u32) -> Option<DeviceIndex> {
        self.homes.get(layer as usize).copied()
    }
}
