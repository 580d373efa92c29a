//! Offloads of random and hand-made items: their budgets and benefits.

mod optimum;
mod orders;
mod refused;
mod rows;

use crate::offload::device::Device;
use crate::offload::item::{Item, ItemClass, ItemKind};
use crate::placement::Bytes;
use crate::testing::Random;

use super::{Assignment, OffloadPlan, Request};

fn weight(name: &str, bytes: Bytes, benefit: f64) -> Item {
    let (kind, class) = (ItemKind::Weight, ItemClass::Other);
    Item {
        name: name.to_owned(),
        kind,
        class,
        bytes,
        layer: None,
        benefit,
        pinned: None,
        rows: None,
        is_on_host: false,
    }
}

fn limited(name: &str, budget: Bytes) -> Device {
    Device { budget: Some(budget), alignment: 1, ..Device::new(name) }
}

/// A made-up machine: the compute buffer of a device depends on the items placed there and on the largest weight that
/// is not, which is copied there.
struct Machine {
    devices: Vec<Device>,
    items: Vec<Item>,
    /// By device: bytes that are always needed, and sixteenths of the bytes read from elsewhere.
    fixed: Vec<Bytes>,
    copied: Vec<Bytes>,
}

impl Machine {
    fn random(random: &mut Random, items: u32, devices: u32) -> Self {
        let mut bytes = |limit: u32| 1 + Bytes::from(random.below(limit));
        let items: Vec<Item> = (0..items)
            .map(|at| {
                let kind = if bytes(4) == 1 { ItemKind::Cache } else { ItemKind::Weight };
                #[expect(clippy::cast_precision_loss, reason = "small")]
                Item { kind, ..weight(&format!("item {at}"), bytes(1000), bytes(1000) as f64) }
            })
            .collect();
        let total: Bytes = items.iter().map(|item| item.bytes).sum();
        let mut device = |at: u32| Device {
            budget: Some(bytes(u32::try_from(total).expect("small")) + 50),
            reserve: bytes(50),
            granularity: [1, 1, 64][usize::try_from(bytes(3)).expect("small") - 1],
            alignment: [1, 16, 32][usize::try_from(bytes(3)).expect("small") - 1],
            max_buffer: (bytes(3) == 1).then(|| 200 + bytes(1300)),
            ..Device::new(format!("gpu{at}"))
        };
        let mut devices: Vec<Device> = (0..devices).map(&mut device).collect();
        devices.push(Device::new("cpu"));
        let fixed = devices.iter().map(|_| bytes(60)).collect();
        let copied = devices.iter().map(|_| bytes(17) - 1).collect();
        Self { devices, items, fixed, copied }
    }

    fn request(&self) -> Request<'_> {
        Request::new(&self.devices, &self.items)
    }

    fn compute(&self, assignment: &Assignment) -> Vec<Bytes> {
        let on_device = |at: usize| {
            let both = || self.items.iter().zip(&assignment.0);
            if !both().any(|(_, place)| place.device == at || place.rows.is_some_and(|(device, _)| device == at)) {
                return 0;
            }
            let elsewhere = both().filter(|(_, place)| place.device != at).map(|(item, _)| item.bytes).max();
            self.fixed[at] + elsewhere.unwrap_or(0) * self.copied[at] / 16
        };
        (0..self.devices.len()).map(on_device).collect()
    }

    fn place(&self, request: &Request<'_>) -> Result<OffloadPlan, super::NotPlaced> {
        let placed = super::place(request, &mut |assignment: &Assignment| Ok(self.compute(assignment)))?;
        self.assert_kept(request, &placed);
        Ok(placed)
    }

    /// No budget is exceeded, counted tensor by tensor, and everything is somewhere.
    fn assert_kept(&self, request: &Request<'_>, placed: &OffloadPlan) {
        let compute = self.compute(&placed.assignment);
        assert_eq!(placed.assignment.0.len(), request.items.len());
        assert!((placed.benefit - placed.assignment.benefit(request)).abs() < 1e-9);
        for (at, (device, usage)) in request.devices.iter().zip(&placed.usage).enumerate() {
            let by_kind = [ItemKind::Weight, ItemKind::Cache].map(|kind| self.bytes_on(request, placed, at, kind));
            assert_eq!([usage.weights, usage.caches], by_kind, "{device:?}");
            let compute = Bytes::div_ceil(compute[at], device.granularity) * device.granularity;
            assert_eq!((usage.compute, usage.reserve), (compute, device.reserve), "{device:?}");
            let total = by_kind[0] + by_kind[1] + compute + device.reserve;
            assert!(device.budget.is_none_or(|budget| total <= budget), "{device:?}: {total}");
        }
        for (item, place) in request.items.iter().zip(&placed.assignment.0) {
            assert!(item.pinned.is_none_or(|device| device == place.device), "{item:?}: {place:?}");
            let device = &request.devices[place.device];
            let padded = item.bytes.div_ceil(device.alignment) * device.alignment;
            assert!(device.max_buffer.is_none_or(|max| padded <= max), "{item:?} in a buffer of {device:?}");
        }
    }

    fn bytes_on(&self, request: &Request<'_>, placed: &OffloadPlan, at: usize, kind: ItemKind) -> Bytes {
        let device = &request.devices[at];
        let (mut buffers, mut current) = (0, 0);
        for (item, place) in request.items.iter().zip(&placed.assignment.0).filter(|(item, _)| item.kind == kind) {
            let rows = place.rows.filter(|(on, _)| *on == at).map_or(0, |(_, count)| count);
            let row_bytes = item.rows.as_ref().map_or(0, |rows| rows.bytes);
            for bytes in [if place.device == at { item.bytes } else { 0 }, rows * row_bytes] {
                let padded = bytes.div_ceil(device.alignment) * device.alignment;
                if device.max_buffer.is_some_and(|max| current + padded > max) {
                    buffers += Bytes::div_ceil(current, device.granularity) * device.granularity;
                    current = 0;
                }
                current += padded;
            }
        }
        buffers + Bytes::div_ceil(current, device.granularity) * device.granularity
    }
}
