//! `--check`: a dry run with the arguments of a plan, compared with what is planned.

use std::collections::BTreeSet;

use lastuse::accounting::BufferUsage;
use lastuse::offload::device::Device;
use lastuse::offload::planner::Usage;
use lastuse::placement::Bytes;
use serde_json::{Value, json};

use super::device::HOST;
use crate::launch::{Launcher, NotStarted};
use crate::measure::{DryRun, Request};

/// What a program would hold with the arguments of a plan.
pub struct Checked {
    /// By device, in the order of the plan; the last is the host.
    devices: Vec<(String, Held)>,
    /// What is not as planned.
    pub differences: Vec<Difference>,
}

/// Bytes of the buffers of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    weights: Bytes,
    kv: Bytes,
    compute: Bytes,
    other: Bytes,
}

/// Bytes that are not as planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    device: String,
    class: &'static str,
    promised: Bytes,
    found: Bytes,
}

/// Runs the program with these arguments behind its own.
///
/// # Errors
/// The dry run fails, or does not come to its end.
pub fn dry_run(launcher: &mut Launcher, more: &[String]) -> Result<DryRun, NotStarted> {
    let request = Request { settings: &[], more, captures: None, is_verbose: false };
    known(DryRun::new(launcher, &request)?, launcher)
}

/// Returns a dry run that has come to its end.
///
/// # Errors
/// It has not.
pub fn known(dry_run: DryRun, launcher: &Launcher) -> Result<DryRun, NotStarted> {
    match dry_run.unknown() {
        Some(end) => {
            Err(NotStarted::failed(format!("{} was not measured to its end: {}", launcher.name(), end.why)))
        }
        None => Ok(dry_run),
    }
}

impl Held {
    /// Returns what is on the device of this name, or on the host.
    fn of(dry_run: &DryRun, device: &Device) -> Self {
        let mut held = Self::default();
        let all = dry_run.processes.iter().map(|process| &process.written.accounting);
        for buffer in all.flat_map(|accounting| &accounting.buffers) {
            if !is_named(&buffer.device, &device.name) {
                continue;
            }
            let bytes = match buffer.usage {
                BufferUsage::Weights => &mut held.weights,
                BufferUsage::Compute => &mut held.compute,
                BufferUsage::Any if buffer.sums.kv > 0 => &mut held.kv,
                BufferUsage::Any => &mut held.other,
            };
            *bytes = bytes.saturating_add(device.taken(buffer.asked).unwrap_or(Bytes::MAX));
        }
        held
    }

    fn total(self) -> Bytes {
        let Self { weights, kv, compute, other } = self;
        [kv, compute, other].into_iter().fold(weights, Bytes::saturating_add)
    }
}

/// Returns whether a device of a program is the one of this name in a plan.
fn is_named(device: &str, name: &str) -> bool {
    device == name || (name == HOST && device == "CPU")
}

/// Returns the names of the devices that a program uses, but for the host.
pub fn used_devices(dry_run: &DryRun) -> BTreeSet<String> {
    let all = dry_run.processes.iter().flat_map(|process| &process.written.accounting.devices);
    let others = all.filter(|device| device.kind != "cpu" && device.sums.total() > 0);
    others.map(|device| device.name.clone()).collect()
}

impl Checked {
    /// Compares a dry run with what is planned for devices, the last of which is the host. Of the host only the budget counts: a
    /// program has other buffers there, too.
    pub fn new(dry_run: &DryRun, devices: &[Device], planned: &[Usage]) -> Self {
        let held: Vec<Held> = devices.iter().map(|device| Held::of(dry_run, device)).collect();
        let mut differences = Vec::new();
        let mut compare = |device: &str, class: &'static str, promised: Bytes, found: Bytes| {
            if promised != found {
                differences.push(Difference { device: device.to_owned(), class, promised, found });
            }
        };
        let host = devices.len() - 1;
        for ((device, planned), held) in devices.iter().zip(planned).zip(&held).take(host) {
            compare(&device.name, "weights", planned.weights, held.weights);
            compare(&device.name, "kv", planned.caches, held.kv);
            compare(&device.name, "compute", planned.compute, held.compute);
            compare(&device.name, "other", 0, held.other);
        }
        let is_planned = |name: &String| devices.iter().any(|device| is_named(name, &device.name));
        for name in used_devices(dry_run).iter().filter(|name| !is_planned(name)) {
            compare(name, "total", 0, Held::of(dry_run, &Device::new(name.clone())).total());
        }
        let room = devices[host].budget.map(|budget| budget.saturating_sub(devices[host].reserve));
        if let Some(room) = room.filter(|&room| held[host].total() > room) {
            compare(&devices[host].name, "total", room, held[host].total());
        }
        let names = devices.iter().map(|device| device.name.clone());
        Self { devices: names.zip(held).collect(), differences }
    }

    /// Formats what was found, in a line.
    pub fn text(&self) -> String {
        let (host, devices) = self.devices.split_last().expect("there is a host");
        let of_device = |(name, held): &(String, Held)| format!("{name} would hold {} bytes", held.total());
        let devices: Vec<String> = devices.iter().map(of_device).collect();
        format!("checked: {}, exactly as planned; {}\n", devices.join(", "), of_device(host))
    }

    /// Returns it as JSON.
    pub fn json(&self) -> Value {
        let of_device = |(name, held): &(String, Held)| {
            let Held { weights, kv, compute, other } = held;
            json!({ "name": name, "weights": weights, "kv": kv, "compute": compute, "other": other, "total": held.total() })
        };
        let of_difference = |difference: &Difference| {
            let Difference { device, class, promised, found } = difference;
            json!({ "device": device, "class": class, "promised": promised, "found": found })
        };
        json!({
            "devices": self.devices.iter().map(of_device).collect::<Vec<_>>(),
            "differences": self.differences.iter().map(of_difference).collect::<Vec<_>>(),
        })
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { device, class, promised, found } = self;
        write!(f, "{device}, {class}: {promised} bytes promised, {found} found")
    }
}
