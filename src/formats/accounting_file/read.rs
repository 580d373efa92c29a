//! Reads an accounting, and checks that its sums add up.

use std::fmt;

use serde::Deserialize;

use crate::offload::accounting::{
    AccountedBuffer, AccountedDevice, AccountedGraph, AccountedTensor, Accounting, BufferUsage, DeviceMemory, Location,
    MemoryClass, Step, Steps, Sums,
};
use crate::placement::Bytes;

use super::{FORMAT, VERSION};

/// The defect of an accounting file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedAccounting(String);

impl fmt::Display for MalformedAccounting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an accounting of lastuse: {}", self.0)
    }
}

type Result<T> = std::result::Result<T, MalformedAccounting>;

#[derive(Deserialize)]
struct FileHead {
    format: String,
    version: u32,
}

#[derive(Deserialize)]
struct AccountingRow {
    process: u32,
    ggml: String,
    devices: Vec<DeviceRow>,
    buffers: Vec<BufferRow>,
    graphs: Vec<GraphRow>,
    unread: Vec<TensorRow>,
}

#[derive(Deserialize)]
struct SumsRow {
    weights: Bytes,
    kv: Bytes,
    compute: Bytes,
    other: Bytes,
    rounding: Bytes,
    total: Bytes,
}

#[derive(Deserialize)]
struct DeviceRow {
    name: String,
    description: String,
    kind: String,
    free: Option<Bytes>,
    memory: Option<Bytes>,
    #[serde(flatten)]
    sums: SumsRow,
}

#[derive(Deserialize)]
struct BufferRow {
    id: u64,
    device: String,
    buffer_type: String,
    usage: String,
    mapped: bool,
    asked: Bytes,
    bytes: Bytes,
    #[serde(flatten)]
    sums: SumsRow,
}

#[derive(Deserialize)]
struct GraphRow {
    allocator: Option<u64>,
    leafs: usize,
    nodes: usize,
    tensors: Vec<TensorRow>,
}

#[derive(Deserialize)]
struct TensorRow {
    name: String,
    op: String,
    #[serde(rename = "type")]
    element: String,
    ne: [i64; 4],
    class: String,
    bytes: Bytes,
    view_of: Option<String>,
    resides: Option<String>,
    buffer_type: Option<String>,
    buffer: Option<u64>,
    offset: Option<Bytes>,
    first_step: Option<Step>,
    last_step: Option<Step>,
    executes: Option<String>,
}

fn malformed<T>(reason: impl Into<String>) -> Result<T> {
    Err(MalformedAccounting(reason.into()))
}

/// Reads an accounting.
///
/// # Errors
/// [`MalformedAccounting`] with the first defect; also if sums do not add up.
pub fn read_accounting(text: &str) -> Result<Accounting> {
    let json = |error: serde_json::Error| MalformedAccounting(error.to_string());
    let FileHead { format, version } = serde_json::from_str(text).map_err(json)?;
    if (format.as_str(), version) != (FORMAT, VERSION) {
        return malformed(format!("format {format:?}, version {version}; known is {FORMAT:?}, version {VERSION}"));
    }
    let file: AccountingRow = serde_json::from_str(text).map_err(json)?;
    let devices: Vec<AccountedDevice> = file.devices.into_iter().map(device).collect::<Result<_>>()?;
    let position = |name: &str| devices.iter().position(|device| device.name == name);
    let mut buffers = Vec::new();
    for row in file.buffers {
        let Some(device) = position(&row.device) else {
            return malformed(format!("buffer {} is on the device {:?}, which is not listed", row.id, row.device));
        };
        buffers.push(buffer(row, device)?);
    }
    let tensors = |rows: Vec<TensorRow>| rows.into_iter().map(|row| tensor(row, position)).collect::<Result<Vec<_>>>();
    let graph = |GraphRow { allocator, leafs, nodes, tensors: rows }| {
        Ok(AccountedGraph { allocator, leafs, nodes, tensors: tensors(rows)? })
    };
    let graphs = file.graphs.into_iter().map(graph).collect::<Result<_>>()?;
    let unread = tensors(file.unread)?;
    let read = Accounting { process: file.process, ggml: file.ggml, devices, buffers, graphs, unread };
    check_devices(&read)?;
    Ok(read)
}

fn sums(whose: &str, row: &SumsRow) -> Result<Sums> {
    let &SumsRow { weights, kv, compute, other, rounding, total } = row;
    let sums = Sums { weights, kv, compute, other, rounding };
    if sums.total() != total {
        return malformed(format!("the sums of {whose} are {} bytes, not the total of {total}", sums.total()));
    }
    Ok(sums)
}

fn device(row: DeviceRow) -> Result<AccountedDevice> {
    let sums = sums(&row.name, &row.sums)?;
    let memory = row.free.zip(row.memory).map(|(free, total)| DeviceMemory { free, total });
    Ok(AccountedDevice { name: row.name, description: row.description, kind: row.kind, memory, sums })
}

fn buffer(row: BufferRow, device: usize) -> Result<AccountedBuffer> {
    let BufferRow { id, buffer_type, mapped: is_mapped, asked, bytes, .. } = row;
    let Some(usage) = BufferUsage::with_name(&row.usage) else {
        return malformed(format!("buffer {id} has the unknown usage {:?}", row.usage));
    };
    let sums = sums(&format!("buffer {id}"), &row.sums)?;
    if sums.total() != asked {
        return malformed(format!("the sums of buffer {id} are {} bytes, and {asked} were asked for", sums.total()));
    }
    Ok(AccountedBuffer { id, device, buffer_type, usage, is_mapped, asked, bytes, sums })
}

fn tensor(row: TensorRow, position: impl Fn(&str) -> Option<usize>) -> Result<AccountedTensor> {
    let Some(class) = MemoryClass::with_name(&row.class) else {
        return malformed(format!("tensor {:?} has the unknown class {:?}", row.name, row.class));
    };
    let device = row.resides.as_deref().and_then(position);
    if device.is_none() && row.resides.is_some() {
        return malformed(format!("tensor {:?} resides on a device that is not listed", row.name));
    }
    let location = row.buffer.zip(row.offset).map(|(buffer, offset)| Location { buffer, offset });
    let steps = row.first_step.zip(row.last_step).map(|(first, last)| Steps { first, last });
    let TensorRow { name, op, element, ne, bytes, view_of, buffer_type, executes, .. } = row;
    Ok(AccountedTensor { name, op, element, ne, class, bytes, view_of, device, buffer_type, location, steps, executes })
}

/// Checks that the sums of devices are those of their buffers.
fn check_devices(accounting: &Accounting) -> Result<()> {
    for (position, device) in accounting.devices.iter().enumerate() {
        let mut sums = Sums::default();
        let on_device = accounting.buffers.iter().filter(|buffer| buffer.device == position);
        on_device.for_each(|buffer| sums.add(&buffer.sums));
        if sums != device.sums {
            return malformed(format!("the sums of {} are not those of its buffers", device.name));
        }
    }
    Ok(())
}
