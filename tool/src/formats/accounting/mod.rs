//! Reads an accounting, and checks that its sums add up.

#[cfg(test)]
mod tests;

use std::fmt;

use lastuse::accounting::json::{FORMAT, VERSION};
use lastuse::accounting::{Accounting, Sums};
use serde_json::Value;

/// The defect of an accounting file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedAccounting(String);

impl fmt::Display for MalformedAccounting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an accounting of lastuse: {}", self.0)
    }
}

/// Reads an accounting.
///
/// # Errors
/// [`MalformedAccounting`] with the first defect; also if sums do not add up.
pub fn read_accounting(text: &str) -> Result<Accounting, MalformedAccounting> {
    let json = |error: serde_json::Error| MalformedAccounting(error.to_string());
    let file: Value = serde_json::from_str(text).map_err(|error| {
        MalformedAccounting(format!("{error}; \"lastuse run --accounting=FILE.json PROGRAM\" writes one"))
    })?;
    let (format, version) = (&file["format"], &file["version"]);
    if *format != FORMAT || *version != VERSION {
        let why = format!("format {format}, version {version}; expected {FORMAT:?}, version {VERSION}");
        return Err(MalformedAccounting(why));
    }
    // From the text, so that errors have a position.
    let read: Accounting = serde_json::from_str(text).map_err(json)?;
    check(&read, &file).map_err(MalformedAccounting)?;
    Ok(read)
}

/// Checks that parts add up to totals, buffers to devices, and that devices are listed.
fn check(read: &Accounting, file: &Value) -> Result<(), String> {
    let rows = |key: &str| file[key].as_array().cloned().unwrap_or_default();
    let is_listed = |name: &str| read.devices.iter().any(|device| device.name == name);
    for (buffer, row) in read.buffers.iter().zip(rows("buffers")) {
        let (id, asked, device) = (buffer.id, buffer.asked, &buffer.device);
        check_total(&format!("buffer {id}"), &buffer.sums, &row["total"])?;
        if buffer.sums.total() != asked {
            let total = buffer.sums.total();
            return Err(format!("the sums of buffer {id} are {total} bytes, and {asked} were asked for"));
        }
        if !is_listed(device) {
            return Err(format!("buffer {id} is on the device {device:?}, which is not listed"));
        }
    }
    for (device, row) in read.devices.iter().zip(rows("devices")) {
        check_total(&device.name, &device.sums, &row["total"])?;
        let mut sums = Sums::default();
        let on_device = read.buffers.iter().filter(|buffer| buffer.device == device.name);
        on_device.for_each(|buffer| sums.add(&buffer.sums));
        if sums != device.sums {
            return Err(format!("the sums of {} are not those of its buffers", device.name));
        }
    }
    let mut tensors = read.graphs.iter().flat_map(|graph| &graph.tensors).chain(&read.unread);
    match tensors.find(|tensor| tensor.resides.as_deref().is_some_and(|device| !is_listed(device))) {
        Some(tensor) => Err(format!("tensor {:?} resides on a device that is not listed", tensor.name)),
        None => Ok(()),
    }
}

fn check_total(whose: &str, sums: &Sums, total: &Value) -> Result<(), String> {
    let found = sums.total();
    if *total == found {
        Ok(())
    } else {
        Err(format!("the sums of {whose} are {found} bytes, not the total of {total}"))
    }
}
