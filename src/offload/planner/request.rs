//! The input of the planner, where each item is, and the memory that this takes on each device.

use crate::offload::device::{Device, DeviceIndex};
use crate::offload::item::{Item, ItemKind};
use crate::placement::Bytes;

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
    /// Contiguous ranges of layers: the first layers on the host, then a range on each device in their order, or on the
    /// fewest of the first devices that have room for all layers. Items without a layer stay on the host, where they are not
    /// pinned.
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

/// Where an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The device that has all of it.
    pub device: DeviceIndex,
    /// A device that also has the rows that gain most, and how many.
    pub rows: Option<(DeviceIndex, u64)>,
}

/// By item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assignment(pub Vec<Place>);

impl Assignment {
    /// All that is not pinned is on the host.
    pub fn on_host(request: &Request<'_>) -> Self {
        let place = |pinned: Option<DeviceIndex>| Place { device: pinned.unwrap_or(request.host()), rows: None };
        Self(request.items.iter().map(|item| place(item.pinned)).collect())
    }

    /// Returns the benefit.
    pub fn benefit(&self, request: &Request<'_>) -> f64 {
        let host = request.host();
        let gained = request.items.iter().zip(&self.0).map(|(item, place)| {
            if place.device != host {
                return item.benefit;
            }
            let Some((rows, (_, count))) = item.rows.as_ref().zip(place.rows) else { return 0.0 };
            (0..).zip(&rows.benefits).take_while(|(group, _)| rows.in_groups(*group) < count).map(|(_, it)| it).sum()
        });
        gained.sum()
    }
}

/// Bytes of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In buffers of weights, the rows of split items among them.
    pub weights: Bytes,
    /// In buffers of caches.
    pub caches: Bytes,
    /// In the compute buffer.
    pub compute: Bytes,
    /// Memory outside of buffers.
    pub reserve: Bytes,
}

impl Usage {
    /// Returns the bytes of the items that an assignment has on a device; `None` if the device cannot have them: one is
    /// larger than a buffer may be, or sizes overflow.
    pub fn of_items(request: &Request<'_>, assignment: &Assignment, index: DeviceIndex) -> Option<Self> {
        let device = &request.devices[index];
        let of_kind = |kind: ItemKind| {
            let both = request.items.iter().zip(&assignment.0).filter(|(item, _)| item.kind == kind);
            device.buffer_bytes(both.flat_map(|(item, place)| {
                let whole = (place.device == index).then(|| item.bytes_there(index == request.host()));
                let rows = place.rows.filter(|(at, _)| *at == index);
                whole.into_iter().chain(rows.map(|(_, count)| row_bytes(item, count)))
            }))
        };
        let (weights, caches) = (of_kind(ItemKind::Weight)?, of_kind(ItemKind::Cache)?);
        Some(Self { weights, caches, compute: 0, reserve: device.reserve })
    }

    /// Returns the sum.
    pub fn total(&self) -> Bytes {
        [self.caches, self.compute, self.reserve].iter().fold(self.weights, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// Returns whether it is within the budget.
    pub fn fits(&self, device: &Device) -> bool {
        device.budget.is_none_or(|budget| self.total() <= budget)
    }
}

/// Returns the bytes of the first rows of an item; more than any device has where that overflows.
fn row_bytes(item: &Item, count: u64) -> Bytes {
    item.rows.as_ref().map_or(0, |rows| rows.bytes.saturating_mul(count))
}
