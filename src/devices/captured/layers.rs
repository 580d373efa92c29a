//! Which device a layer of a model is on.

use std::collections::BTreeMap;

use crate::devices::device::DeviceIndex;
use crate::devices::item::{Item, ItemKind};
use crate::devices::planner::Assignment;
use crate::placement::Bytes;

/// Returns the device of those items for which `is_of_layer` is true: that of their cache where it is not on the host, as
/// llama.cpp has the cache of a layer where the layer is, and otherwise that of most of their bytes. `None` without items.
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
        let sum = bytes.entry(place.device).or_default();
        *sum = sum.saturating_add(item.bytes);
    }
    bytes.into_iter().max_by_key(|&(_, bytes)| bytes).map(|(device, _)| device)
}
