//! `--check`: a dry run with the arguments of a plan, compared with what is planned.

use std::collections::HashMap;

use lastuse::accounting::{Accounting, BufferUsage};
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

/// Dry runs of a program, by the arguments behind its own: each is done once.
pub struct DryRuns<'l> {
    pub launcher: &'l mut Launcher,
    done: HashMap<Vec<String>, Result<DryRun, NotStarted>>,
}

impl<'l> DryRuns<'l> {
    pub fn new(launcher: &'l mut Launcher) -> Self {
        Self { launcher, done: HashMap::new() }
    }

    /// Runs the program with these arguments behind its own.
    ///
    /// # Errors
    /// The dry run fails, or does not come to its end.
    pub fn with(&mut self, more: &[String]) -> Result<&DryRun, NotStarted> {
        if !self.done.contains_key(more) {
            let request = Request { settings: &[], more, captures: None, is_verbose: false };
            let done = DryRun::new(self.launcher, &request).and_then(|dry_run| known(dry_run, self.launcher));
            self.done.insert(more.to_vec(), done);
        }
        self.done[more].as_ref().map_err(NotStarted::clone)
    }
}

/// Returns a dry run that has come to its end.
///
/// # Errors
/// It has not.
pub fn known(dry_run: DryRun, launcher: &Launcher) -> Result<DryRun, NotStarted> {
    match dry_run.unknown() {
        Some(end) => Err(NotStarted::failed(format!("{} was not measured to its end: {}", launcher.name(), end.why))),
        None => Ok(dry_run),
    }
}

impl Held {
    /// Returns what is on the device of this name, or on the host.
    fn of<'a>(processes: impl Iterator<Item = &'a Accounting>, device: &Device) -> Self {
        let mut held = Self::default();
        for buffer in processes.flat_map(|accounting| &accounting.buffers) {
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

/// Returns the names of the devices that a program uses, but for the host, in the order of its accounting.
pub fn used_devices<'a>(processes: impl Iterator<Item = &'a Accounting>) -> Vec<String> {
    let mut names = Vec::new();
    for device in processes.flat_map(|accounting| &accounting.devices) {
        if device.kind != "cpu" && device.sums.total() > 0 && !names.contains(&device.name) {
            names.push(device.name.clone());
        }
    }
    names
}

impl Checked {
    /// Compares the processes of a dry run with what is planned for devices, the last of which is the host. Of the host only
    /// the budget counts: a program has other buffers there, too.
    pub fn new<'a>(
        processes: impl Iterator<Item = &'a Accounting> + Clone,
        devices: &[Device],
        planned: &[Usage],
    ) -> Self {
        let held_by = |device: &Device| Held::of(processes.clone(), device);
        let held: Vec<Held> = devices.iter().map(held_by).collect();
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
        for name in used_devices(processes.clone()).iter().filter(|name| !is_planned(name)) {
            compare(name, "total", 0, held_by(&Device::new(name.clone())).total());
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

#[cfg(test)]
mod tests {
    use lastuse::accounting::{AccountedBuffer, AccountedDevice, Sums};

    use super::*;

    /// A process with buffers of these devices: usage, bytes asked for, and those of caches among them.
    fn process(buffers: &[(&str, BufferUsage, Bytes, Bytes)]) -> Accounting {
        let buffer = |(id, &(device, usage, asked, kv)): (u64, &(&str, BufferUsage, Bytes, Bytes))| AccountedBuffer {
            id,
            device: device.to_owned(),
            buffer_type: device.to_owned(),
            usage,
            mapped: false,
            asked,
            bytes: asked,
            resident: None,
            sums: Sums { kv, other: asked - kv, ..Sums::default() },
        };
        let device = |name: &str| {
            let own = buffers.iter().filter(|(device, ..)| *device == name).map(|(_, _, asked, _)| asked);
            AccountedDevice {
                name: name.to_owned(),
                kind: if name == "CPU" { "cpu" } else { "gpu" }.to_owned(),
                sums: Sums { other: own.sum(), ..Sums::default() },
                ..AccountedDevice::default()
            }
        };
        Accounting {
            devices: ["CPU", "Vulkan0", "Vulkan1"].map(device).to_vec(),
            buffers: (1..).zip(buffers).map(buffer).collect(),
            ..Accounting::default()
        }
    }

    #[test]
    fn what_is_not_as_planned_is_named() {
        use BufferUsage::{Any, Compute, Weights};
        let promised = Usage { weights: 100, caches: 20, compute: 8, reserve: 5 };
        let found = |buffers: &[(&str, BufferUsage, Bytes, Bytes)], host: Option<Bytes>| {
            let devices = [Device::new("Vulkan0"), Device { budget: host, ..Device::new(HOST) }];
            let checked = Checked::new([process(buffers)].iter(), &devices, &[promised, Usage::default()]);
            checked.differences.iter().map(Difference::to_string).collect::<Vec<_>>()
        };
        let as_planned = [
            ("Vulkan0", Weights, 60, 0),
            ("Vulkan0", Weights, 40, 0),
            ("Vulkan0", Any, 20, 16),
            ("Vulkan0", Compute, 8, 0),
        ];
        assert!(found(&as_planned, None).is_empty());
        let with = |more: (&'static str, BufferUsage, Bytes, Bytes)| [as_planned.as_slice(), &[more]].concat();
        let on_host = with(("CPU", Weights, 1000, 0));
        assert!(found(&on_host, Some(1000)).is_empty());
        for (found, expected) in [
            (found(&on_host, Some(999)), "cpu, total: 999 bytes promised, 1000 found"),
            (found(&with(("Vulkan0", Compute, 4, 0)), None), "Vulkan0, compute: 8 bytes promised, 12 found"),
            (found(&with(("Vulkan0", Any, 4, 4)), None), "Vulkan0, kv: 20 bytes promised, 24 found"),
            (found(&with(("Vulkan0", Any, 4, 0)), None), "Vulkan0, other: 0 bytes promised, 4 found"),
            (found(&with(("Vulkan1", Compute, 4, 0)), None), "Vulkan1, total: 0 bytes promised, 4 found"),
            (found(&as_planned[1..], None), "Vulkan0, weights: 100 bytes promised, 40 found"),
        ] {
            assert_eq!(found, [expected]);
        }
    }

    #[test]
    fn granularities_count_for_each_buffer() {
        let devices = [Device { granularity: 64, ..Device::new("Vulkan0") }, Device::new(HOST)];
        let accounting = process(&[("Vulkan0", BufferUsage::Compute, 65, 0), ("Vulkan0", BufferUsage::Compute, 64, 0)]);
        let planned = Usage { compute: 192, ..Usage::default() };
        let checked = Checked::new([accounting].iter(), &devices, &[planned, Usage::default()]);
        assert!(checked.differences.is_empty());
        assert_eq!(
            checked.text(),
            "checked: Vulkan0 would hold 192 bytes, exactly as planned; cpu would hold 0 bytes\n"
        );
    }
}
