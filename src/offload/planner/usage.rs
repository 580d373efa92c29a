//! The memory that an offload plan takes on each device.

use crate::offload::device::{Device, DeviceIndex};
use crate::offload::item::{Item, ItemKind};
use crate::placement::Bytes;

use super::assignment::Assignment;
use super::request::Request;

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
                let whole = (place.device == index).then_some(item.bytes);
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
