//! The input of the planner.

use crate::offload::device::{Device, DeviceIndex};
use crate::offload::item::Item;

/// In which order items are placed while there is room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Items that gain most for their bytes come first; those that do not fit are left out.
    #[default]
    Benefit,
    /// PowerInfer's order of classes: attention, predictors, norms of FFNs and the output head of all layers up to the
    /// first tensor that does not fit; then all caches of values or none, all caches of keys or none; then FFNs.
    Classes,
    /// The order of the list, up to the first item that does not fit.
    Given,
}

/// Which items may be together on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// Any.
    #[default]
    Items,
    /// Contiguous ranges of layers: the first layers on the host, then a range on each device in their order. Items
    /// without a layer stay on the host, where they are not pinned.
    Layers,
}

/// Devices, and the items to place on them.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The devices in the order of preference; the last is the host.
    pub devices: &'a [Device],
    /// The items to place, in the order of the tensors in their buffers.
    pub items: &'a [Item],
    /// In which order.
    pub order: Order,
    /// The items that may be together.
    pub spread: Spread,
    /// How many offload plans may be measured, at least 1.
    pub measurements: u32,
}

impl<'a> Request<'a> {
    /// The most offload plans that are measured by default.
    pub const MEASUREMENTS: u32 = 1000;

    /// Places by benefit, any items together.
    pub fn new(devices: &'a [Device], items: &'a [Item]) -> Self {
        let (order, spread) = (Order::default(), Spread::default());
        Self { devices, items, order, spread, measurements: Self::MEASUREMENTS }
    }

    /// Returns the host.
    pub fn host(&self) -> DeviceIndex {
        self.devices.len() - 1
    }
}
