//! `--device`: a device and its budget.

use std::str::FromStr;

use lastuse::graph::snapshot::Snapshot;
use lastuse::offload::device::Device;

use crate::passes::size_option;

/// A device as it is given on the command line.
#[derive(Clone, Debug)]
pub struct DeviceArgument {
    /// The device, with defaults for missing values.
    pub device: Device,
    /// It computes asynchronously and has events, as devices commonly do.
    pub has_events: bool,
    /// Whether a part of the budget is for memory outside of buffers, or is said to be none.
    pub is_reserve_given: bool,
    is_alignment_given: bool,
    is_max_buffer_given: bool,
}

/// The name of the host.
pub const HOST: &str = "cpu";

/// The alignment that ggml's backends for GPUs require of tensors; the CPU requires 32.
const GPU_ALIGNMENT: u64 = 128;

/// The largest alignment, beyond that of any device: sums of padded tensors stay far from overflows.
const MOST_ALIGNMENT: u64 = 1 << 30;

impl FromStr for DeviceArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let Some((name, budget)) = first.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(format!("{text:?} has no budget: give NAME=BYTES, such as gpu=2GiB"));
        };
        // ggml names it in capitals.
        let name = if name.eq_ignore_ascii_case(HOST) { HOST } else { name };
        let mut device = Device { budget: Some(size_option(budget)?), ..Device::new(name) };
        if name != HOST {
            device.alignment = GPU_ALIGNMENT;
        }
        let (mut is_alignment_given, mut is_max_buffer_given, mut has_events) = (false, false, true);
        // The host has memory outside of buffers of its program anyway.
        let mut is_reserve_given = name == HOST;
        for part in parts {
            match part.split_once('=') {
                Some(("reserve", bytes)) => (device.reserve, is_reserve_given) = (size_option(bytes)?, true),
                Some(("granularity", bytes)) => device.granularity = size_option(bytes)?,
                Some(("alignment", bytes)) => {
                    (device.alignment, is_alignment_given) = (size_option(bytes)?, true);
                }
                Some(("max-buffer", bytes)) => {
                    (device.max_buffer, is_max_buffer_given) = (Some(size_option(bytes)?), true);
                }
                Some(("events", "on")) => has_events = true,
                Some(("events", "off")) => has_events = false,
                _ => {
                    return Err(format!(
                        "{part:?} is not known: after the budget, expected reserve, granularity, alignment or max-buffer, \
                         each with =BYTES, or events=on or events=off"
                    ));
                }
            }
        }
        check(&device)?;
        Ok(Self { device, has_events, is_reserve_given, is_alignment_given, is_max_buffer_given })
    }
}

/// Refuses values that no graph could be placed with.
fn check(device: &Device) -> Result<(), String> {
    let Device { alignment, granularity, reserve, budget, max_buffer, .. } = device;
    if !alignment.is_power_of_two() {
        return Err(format!("the alignment is {alignment}, which is not a power of two"));
    }
    if *alignment > MOST_ALIGNMENT {
        return Err(format!("the alignment is {alignment}: give at most {MOST_ALIGNMENT}"));
    }
    if *max_buffer == Some(0) {
        return Err(
            "the largest buffer has 0 bytes: give more, or a budget of 0 if nothing is to be placed there".to_owned()
        );
    }
    if *granularity == 0 {
        return Err("the granularity is 0: give at least 1".to_owned());
    }
    match budget {
        Some(budget) if reserve > budget => Err(format!(
            "the budget of {budget} bytes is below the reserve of {reserve}: raise the budget, or lower the reserve"
        )),
        _ => Ok(()),
    }
}

/// Returns the devices with the host as the last, which has no limit unless it is given.
///
/// # Errors
/// Names that are given twice, or no device besides the host.
pub fn with_host(arguments: &[DeviceArgument]) -> Result<Vec<Device>, String> {
    let mut devices: Vec<Device> = Vec::new();
    for DeviceArgument { device, .. } in arguments {
        if devices.iter().any(|other| other.name == device.name) {
            return Err(format!("the device {:?} is given twice", device.name));
        }
        devices.push(device.clone());
    }
    let host = devices.iter().position(|device| device.name == HOST);
    let host = host.map_or_else(|| Device::new(HOST), |at| devices.remove(at));
    if devices.is_empty() {
        return Err(format!("there is no device besides {HOST:?}: give one, such as --device gpu=2GiB"));
    }
    devices.push(host);
    Ok(devices)
}

/// Sets missing values of a device to those of the captured buffers of this name: alignment and largest size.
pub fn complete(devices: &mut [Device], arguments: &[DeviceArgument], snapshots: &[Snapshot]) {
    for device in devices {
        let argument = arguments.iter().find(|argument| argument.device.name == device.name);
        let captured = snapshots.iter().flat_map(|snapshot| &snapshot.buffers).find(|it| it.name == device.name);
        let (Some(argument), Some(captured)) = (argument, captured) else { continue };
        if !argument.is_alignment_given {
            device.alignment = captured.alignment.max(1);
        }
        if !argument.is_max_buffer_given {
            device.max_buffer = captured.max_size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lastuse::graph::Graph;
    use lastuse::graph::snapshot::BufferInfo;

    fn parse(text: &str) -> Result<Device, String> {
        text.parse::<DeviceArgument>().map(|argument| argument.device)
    }

    #[test]
    fn devices_have_a_budget_and_properties() {
        let expected = Device {
            budget: Some(2 << 30),
            reserve: 300 << 20,
            granularity: 2 << 20,
            alignment: 256,
            max_buffer: Some(1 << 30),
            ..Device::new("gpu")
        };
        let text = "gpu=2GiB,reserve=300M,granularity=2MiB,alignment=256,max-buffer=1G";
        assert_eq!(parse(text), Ok(expected));
        let has_events = |text: &str| text.parse::<DeviceArgument>().map(|argument| argument.has_events);
        assert_eq!((has_events("gpu=0"), has_events("gpu=0,events=off")), (Ok(true), Ok(false)));
        assert_eq!(parse("gpu=0").map(|device| (device.budget, device.alignment)), Ok((Some(0), 128)));
        assert_eq!(parse("cpu=18446744073709551615").map(|device| device.budget), Ok(Some(u64::MAX)));
        for (text, message) in [
            ("gpu", "\"gpu\" has no budget"),
            ("=2G", "has no budget"),
            ("gpu=1.GiB", "\"1.GiB\" is not a size"),
            ("gpu=2GX", "\"2GX\" is not a size"),
            ("gpu=18446744073709551616", "is not a size"),
            ("gpu=2G,spare=1", "\"spare=1\" is not known"),
            ("gpu=2G,events=1", "events=on or events=off"),
            ("gpu=2G,alignment=3", "the alignment is 3, which is not a power of two"),
            ("gpu=2G,alignment=9223372036854775808", "the alignment is 9223372036854775808: give at most 1073741824"),
            ("gpu=2G,max-buffer=0", "the largest buffer has 0 bytes"),
            ("gpu=2G,granularity=0", "the granularity is 0"),
            ("gpu=2G,reserve=3G", "the budget of 2147483648 bytes is below the reserve of 3221225472"),
        ] {
            let found = parse(text).expect_err("refused");
            assert!(found.contains(message), "{found}");
        }
    }

    #[test]
    fn captured_buffers_of_their_names_complete_devices() {
        let captured = BufferInfo {
            name: "Vulkan0".to_owned(),
            alignment: 16,
            max_size: Some(1 << 20),
            ggml_alloc_size: None,
            rules: None,
            effort: None,
        };
        let snapshot = Snapshot {
            label: String::new(),
            buffers: vec![captured],
            graph: Graph::with_capacity(0),
            tensors: Vec::new(),
        };
        let completed = |text: &str| {
            let argument: DeviceArgument = text.parse().expect("a device");
            let mut devices = [argument.device.clone()];
            complete(&mut devices, &[argument], std::slice::from_ref(&snapshot));
            (devices[0].alignment, devices[0].max_buffer)
        };
        assert_eq!(completed("Vulkan0=1G"), (16, Some(1 << 20)));
        assert_eq!(completed("Vulkan0=1G,alignment=64,max-buffer=1G"), (64, Some(1 << 30)));
        assert_eq!(completed("gpu=1G"), (128, None));
    }

    #[test]
    fn host_is_last_and_without_limit_unless_it_is_given() {
        let devices = |texts: &[&str]| {
            let parsed: Vec<DeviceArgument> = texts.iter().map(|text| text.parse().expect("a device")).collect();
            with_host(&parsed)
        };
        let names = |devices: Vec<Device>| devices.into_iter().map(|it| (it.name, it.budget)).collect::<Vec<_>>();
        assert_eq!(devices(&["gpu=1"]).map(names), Ok(vec![("gpu".to_owned(), Some(1)), ("cpu".to_owned(), None)]));
        let with_cpu = devices(&["cpu=5", "gpu=1"]).map(names);
        assert_eq!(with_cpu, Ok(vec![("gpu".to_owned(), Some(1)), ("cpu".to_owned(), Some(5))]));
        assert!(devices(&["gpu=1", "gpu=2"]).is_err_and(|why| why.contains("\"gpu\" is given twice")));
        assert!(devices(&["cpu=1"]).is_err_and(|why| why.contains("no device besides")));
    }
}
