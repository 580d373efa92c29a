//! A offload that fits, if the compute buffers had the assumed sizes.

use std::collections::BTreeSet;

use crate::offload::device::{Device, DeviceIndex};
use crate::offload::item::{ItemClass, ItemKind, Rows};
use crate::placement::Bytes;

use super::request::{Assignment, Order, Place, Request, Spread, Usage};

/// Returns an offload plan whose items and reserves are within the budgets, if each device has a compute buffer of the
/// `assumed` bytes. `most_bytes` fills devices with as many bytes as go there, in place of the order of the request.
pub fn fill(request: &Request<'_>, assumed: &[Bytes], most_bytes: bool) -> Assignment {
    let mut filling = Filling::new(request, Assignment::on_host(request), assumed);
    match (most_bytes, request.spread, request.order) {
        (true, Spread::Items, _) => filling.take_what_fits(by_bytes(request)),
        (_, Spread::Layers, _) => filling.take_layers(),
        (_, _, Order::Benefit) => filling.take_what_fits(by_density(request)),
        (_, _, Order::Classes) => filling.take_classes(),
        (_, _, Order::Given) => {
            filling.take_until_full(free_items(request));
        }
    }
    filling.take_rows();
    filling.assignment
}

/// Adds rows of split items to an offload plan, as [`fill`] does.
pub fn fill_rows(request: &Request<'_>, from: &Assignment, assumed: &[Bytes]) -> Assignment {
    let mut assignment = from.clone();
    assignment.0.iter_mut().for_each(|place| place.rows = None);
    let mut filling = Filling::new(request, assignment, assumed);
    filling.take_rows();
    filling.assignment
}

/// Returns the items that are not pinned, in the order of the list.
pub fn free_items(request: &Request<'_>) -> Vec<usize> {
    (0..request.items.len()).filter(|&item| request.items[item].pinned.is_none()).collect()
}

/// Returns the items whose offload gains something, those that gain most for their bytes first. Among those that gain
/// the same, the first in the list come first, so that whole layers stay together.
pub fn by_density(request: &Request<'_>) -> Vec<usize> {
    let density = |item: usize| density(request.items[item].benefit, request.items[item].bytes);
    let mut order = free_items(request);
    order.retain(|&item| request.items[item].benefit > 0.0);
    order.sort_by(|&one, &other| density(other).total_cmp(&density(one)));
    order
}

fn by_bytes(request: &Request<'_>) -> Vec<usize> {
    let mut order = free_items(request);
    order.sort_by_key(|&item| std::cmp::Reverse(request.items[item].bytes));
    order
}

#[expect(clippy::cast_precision_loss, reason = "for comparing")]
fn density(benefit: f64, bytes: Bytes) -> f64 {
    benefit / bytes.max(1) as f64
}

/// A offload that grows.
struct Filling<'a> {
    request: &'a Request<'a>,
    assignment: Assignment,
    /// By device: the bytes for items; `None` for no limit.
    rooms: Vec<Option<Bytes>>,
    /// By device: the padded bytes of its weights, and of its caches.
    sums: Vec<[Bytes; 2]>,
}

impl<'a> Filling<'a> {
    fn new(request: &'a Request<'a>, assignment: Assignment, assumed: &[Bytes]) -> Self {
        let room = |(device, &compute): (&Device, &Bytes)| {
            device.budget.map(|budget| budget.saturating_sub(device.reserve).saturating_sub(compute))
        };
        let rooms = request.devices.iter().zip(assumed).map(room).collect();
        let mut filling = Self { request, assignment, rooms, sums: vec![[0; 2]; request.devices.len()] };
        for (item, place) in request.items.iter().zip(&filling.assignment.0) {
            let sum = &mut filling.sums[place.device][item.kind as usize];
            let bytes = item.bytes_there(place.device == request.host());
            *sum = sum.saturating_add(padded(request, place.device, bytes));
        }
        filling
    }

    /// Moves an item from the host to a device, if it fits there.
    fn take(&mut self, item: usize, device: DeviceIndex) -> bool {
        let before = std::mem::replace(&mut self.assignment.0[item], Place { device, rows: None });
        let bytes = self.request.items[item].bytes;
        let fits = self.add(device, self.request.items[item].kind, bytes);
        if !fits {
            self.assignment.0[item] = before;
        }
        fits
    }

    /// Counts `bytes` more on a device, if they fit. The assignment has them already.
    fn add(&mut self, device: DeviceIndex, kind: ItemKind, bytes: Bytes) -> bool {
        let mut sums = self.sums[device];
        sums[kind as usize] = sums[kind as usize].saturating_add(padded(self.request, device, bytes));
        let memory = &self.request.devices[device];
        let is_one_buffer = memory.max_buffer.is_none_or(|max| sums.iter().all(|&sum| sum <= max));
        let needed = if is_one_buffer {
            sums.iter().try_fold(0, |total: Bytes, &sum| total.checked_add(memory.taken(sum)?))
        } else {
            Usage::of_items(self.request, &self.assignment, device)
                .map(|usage| usage.weights.saturating_add(usage.caches))
        };
        let fits = needed.is_some_and(|needed| self.rooms[device].is_none_or(|room| needed <= room));
        if fits {
            self.sums[device] = sums;
        }
        fits
    }

    /// Moves an item to the first device that has room for it.
    fn take_anywhere(&mut self, item: usize) -> bool {
        (0..self.request.host()).any(|device| self.take(item, device))
    }

    fn take_what_fits(&mut self, order: Vec<usize>) {
        for item in order {
            self.take_anywhere(item);
        }
    }

    fn take_until_full(&mut self, order: Vec<usize>) -> bool {
        order.into_iter().all(|item| self.take_anywhere(item))
    }

    /// Moves all of these items to the first device that has room for all of them, or none.
    fn take_all_or_none(&mut self, items: &[usize]) {
        for device in 0..self.request.host() {
            let before = (self.assignment.clone(), self.sums.clone());
            if items.iter().all(|&item| self.take(item, device)) {
                return;
            }
            (self.assignment, self.sums) = before;
        }
    }

    fn take_classes(&mut self) {
        let of_class = |class: ItemClass| -> Vec<usize> {
            let items = free_items(self.request).into_iter();
            items.filter(|&item| self.request.items[item].class == class).collect()
        };
        let [attention, predictors, norms, output, values, keys, ffns] = [
            ItemClass::Attention,
            ItemClass::Predictor,
            ItemClass::FfnNorm,
            ItemClass::Output,
            ItemClass::ValueCache,
            ItemClass::KeyCache,
            ItemClass::Ffn,
        ]
        .map(of_class);
        self.take_until_full([attention, predictors, norms, output].concat());
        self.take_all_or_none(&values);
        self.take_all_or_none(&keys);
        let whole = by_density(self.request).into_iter();
        self.take_what_fits(
            whole.filter(|item| ffns.contains(item) && self.request.items[*item].rows.is_none()).collect(),
        );
    }

    /// Moves ranges of layers, the last layers first, to the fewest of the first devices that have room for all layers; or to
    /// all devices.
    fn take_layers(&mut self) {
        let layers: BTreeSet<u32> = self.request.items.iter().filter_map(|item| item.layer).collect();
        let layers: Vec<u32> = layers.into_iter().collect();
        let before = (self.assignment.clone(), self.sums.clone());
        for devices in 1..=self.request.host() {
            (self.assignment, self.sums) = before.clone();
            if self.take_layers_on(layers.clone(), devices) {
                return;
            }
        }
    }

    /// Moves ranges of layers, the last layers first, to the first `devices` devices, the last of these first. Returns whether
    /// they have room for all layers.
    fn take_layers_on(&mut self, mut layers: Vec<u32>, devices: DeviceIndex) -> bool {
        for device in (0..devices).rev() {
            while let Some(&layer) = layers.last() {
                let before = (self.assignment.clone(), self.sums.clone());
                let free = free_items(self.request).into_iter();
                let mut items = free.filter(|&item| self.request.items[item].layer == Some(layer));
                if !items.all(|item| self.take(item, device)) {
                    (self.assignment, self.sums) = before;
                    break;
                }
                layers.pop();
            }
        }
        layers.is_empty()
    }

    /// Adds groups of rows of items that are on the host, those that gain most for their bytes first.
    fn take_rows(&mut self) {
        let host = self.request.host();
        let mut groups: Vec<(f64, usize, usize)> = Vec::new();
        for (item, place) in self.assignment.0.iter().enumerate().filter(|(_, place)| place.device == host) {
            if let (Some(rows), None) = (&self.request.items[item].rows, place.rows) {
                let density = |group: usize| density(rows.benefits[group], group_bytes(rows, group));
                groups.extend((0..rows.benefits.len()).map(|group| (density(group), item, group)));
            }
        }
        groups.retain(|(density, ..)| *density > 0.0);
        groups.sort_by(|one, other| other.0.total_cmp(&one.0).then((one.1, one.2).cmp(&(other.1, other.2))));
        let mut is_full = vec![false; self.request.items.len()];
        for (_, item, group) in groups {
            is_full[item] = is_full[item] || !self.take_group(item, group);
        }
    }

    /// Adds the next group of rows of an item where its other rows are, or on the first device with room.
    fn take_group(&mut self, item: usize, group: usize) -> bool {
        let Some(rows) = &self.request.items[item].rows else { return false };
        let before = self.assignment.0[item].rows;
        let devices = before.map_or(0..self.request.host(), |(device, _)| device..device + 1);
        for device in devices {
            self.assignment.0[item].rows = Some((device, rows.in_groups(group + 1)));
            if self.add(device, self.request.items[item].kind, group_bytes(rows, group)) {
                return true;
            }
        }
        self.assignment.0[item].rows = before;
        false
    }
}

fn group_bytes(rows: &Rows, group: usize) -> Bytes {
    (rows.in_groups(group + 1) - rows.in_groups(group)).saturating_mul(rows.bytes)
}

/// A tensor with its padding; more than any device has where that overflows.
fn padded(request: &Request<'_>, device: DeviceIndex, bytes: Bytes) -> Bytes {
    bytes.checked_next_multiple_of(request.devices[device].alignment).unwrap_or(Bytes::MAX)
}
