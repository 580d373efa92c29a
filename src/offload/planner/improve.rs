//! Adds what still fits, measuring each offload.

use std::collections::HashSet;

use crate::offload::device::DeviceIndex;
use crate::offload::item::ItemClass;
use crate::placement::Bytes;

use super::fill::{by_density, fill_rows, free_items};
use super::request::{Assignment, Order, Place, Request, Spread, Usage};
use super::search::{NotPlaced, Search};

/// Maximum number of items for which all offload plans are considered.
const FEW: usize = 16;
/// The part of the gain by which another offload of a few items must be better.
const WORTH: f64 = 0.002;

/// Improves the best offload found, where the order of the request leaves the choice.
pub fn improve(search: &mut Search<'_>) -> Result<(), NotPlaced> {
    match (search.request.spread, search.request.order) {
        (Spread::Layers, _) => add_layers(search)?,
        (Spread::Items, Order::Benefit) => {
            add_items(search)?;
            try_all(search)?;
        }
        _ => {}
    }
    add_rows(search)
}

/// Returns the bytes that a device has left; `None` for no limit.
fn left(request: &Request<'_>, usage: &[Usage], device: DeviceIndex) -> Option<Bytes> {
    request.devices[device].budget.map(|budget| budget.saturating_sub(usage[device].total()))
}

/// Adds single items. One that is not larger than the compute buffer and the free bytes together may fit too: with the
/// item, the compute buffer may be smaller, as copies of weights that are on the host lie in it.
fn add_items(search: &mut Search<'_>) -> Result<(), NotPlaced> {
    let request = search.request;
    let mut refused: HashSet<(DeviceIndex, Bytes, ItemClass)> = HashSet::new();
    for item in by_density(request) {
        for device in 0..request.host() {
            let Some(best) = search.best.as_ref().filter(|best| best.assignment.0[item].device == request.host())
            else {
                break;
            };
            let (bytes, class) = (request.items[item].bytes, request.items[item].class);
            let room = left(request, &best.usage, device).map(|left| left.saturating_add(best.usage[device].compute));
            if room.is_some_and(|room| bytes > room) || refused.contains(&(device, bytes, class)) {
                continue;
            }
            let (mut trial, before) = (best.assignment.clone(), best.benefit);
            trial.0[item] = Place { device, rows: None };
            search.measured(&trial)?;
            if search.best.as_ref().is_some_and(|best| best.benefit <= before) {
                refused.insert((device, bytes, class));
            }
        }
    }
    Ok(())
}

/// Adds layers before those that are on a device: there, or on a device before that.
fn add_layers(search: &mut Search<'_>) -> Result<(), NotPlaced> {
    let request = search.request;
    let host = request.host();
    let free = free_items(request);
    let of_layers = || free.iter().copied().filter(|&item| request.items[item].layer.is_some());
    while let Some(best) = search.best.clone() {
        let device_of = |item: usize| best.assignment.0[item].device;
        let on_host = of_layers().filter(|&item| device_of(item) == host);
        let Some(layer) = on_host.filter_map(|item| request.items[item].layer).max() else { return Ok(()) };
        let first = of_layers().map(device_of).filter(|&device| device != host).min();
        for device in (0..first.map_or(host, |first| first + 1)).rev() {
            let mut trial = best.assignment.clone();
            for item in of_layers().filter(|&item| request.items[item].layer == Some(layer)) {
                trial.0[item] = Place { device, rows: None };
            }
            search.measured(&trial)?;
            if search.best.as_ref().is_some_and(|now| now.benefit > best.benefit) {
                break;
            }
        }
        if search.best.as_ref().is_none_or(|now| now.benefit <= best.benefit) {
            return Ok(());
        }
    }
    Ok(())
}

/// Tries all offload plans of a few items, those that gain most first.
fn try_all(search: &mut Search<'_>) -> Result<(), NotPlaced> {
    let request = search.request;
    let free = free_items(request);
    let devices = request.devices.len();
    let count = u32::try_from(free.len()).ok().and_then(|items| devices.checked_pow(items));
    let Some(count) = count.filter(|&count| count <= 1 << FEW && free.len() <= FEW) else { return Ok(()) };
    if request.items.iter().any(|item| item.rows.is_some()) {
        return Ok(());
    }
    let assignment = |mut code: usize| {
        let mut assignment = Assignment::on_host(request);
        for &item in &free {
            assignment.0[item].device = code % devices;
            code /= devices;
        }
        assignment
    };
    let mut trials: Vec<(f64, Assignment)> = (0..count).map(assignment).map(|it| (it.benefit(request), it)).collect();
    trials.sort_by(|one, other| other.0.total_cmp(&one.0));
    // Those that seem to fit come first, as the number of measurements is limited.
    for is_likely in [true, false] {
        for (benefit, trial) in &trials {
            if search.is_spent() || search.best.as_ref().is_some_and(|best| *benefit <= best.benefit * (1.0 + WORTH)) {
                break;
            }
            let fits = if is_likely {
                fits_with(search, trial, &search.compute_of_nearest(trial))
            } else {
                fits_with(search, trial, &search.least_compute)
            };
            if fits {
                search.measured(trial)?;
            }
        }
    }
    Ok(())
}

/// Returns whether the items fit, if compute buffers are of these sizes.
fn fits_with(search: &Search<'_>, trial: &Assignment, compute: &[Bytes]) -> bool {
    (0..search.request.devices.len()).all(|device| {
        let usage = Usage::of_items(search.request, trial, device);
        let compute = compute[device];
        usage.is_some_and(|usage| Usage { compute, ..usage }.fits(&search.request.devices[device]))
    })
}

/// How often the room for rows is corrected.
const CORRECTIONS: u32 = 4;

/// Adds rows of split items.
fn add_rows(search: &mut Search<'_>) -> Result<(), NotPlaced> {
    let Some(best) = search.best.clone() else { return Ok(()) };
    let mut assumed: Vec<Bytes> = best.usage.iter().map(|usage| usage.compute).collect();
    for _ in 0..CORRECTIONS {
        let trial = fill_rows(search.request, &best.assignment, &assumed);
        let Some(usage) = search.measured(&trial)? else { return Ok(()) };
        if usage.iter().zip(search.request.devices).all(|(usage, device)| usage.fits(device)) {
            return Ok(());
        }
        for (assumed, usage) in assumed.iter_mut().zip(&usage) {
            *assumed = usage.compute.max(*assumed);
        }
    }
    Ok(())
}
