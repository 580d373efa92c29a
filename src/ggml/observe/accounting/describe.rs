//! Live buffers, their devices, and tensors, as plain data.

use std::collections::BTreeMap;
use std::ptr::{NonNull, null};

use crate::accounting::{AccountedDevice, AccountedTensor, BufferUsage, HeldBuffer, MemoryClass};
use crate::ggml::bindings::ggml_backend_device;
use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::{Runtime, text};
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::platform::{free_memory, physical_memory};
use crate::ggml::{USAGE_COMPUTE, USAGE_WEIGHTS};
use crate::graph::Flags;
use crate::placement::Bytes;

/// ggml's numbers for kinds of devices.
const CPU: u32 = 0;
const KINDS: [(u32, &str); 4] = [(CPU, "cpu"), (1, "gpu"), (2, "integrated gpu"), (3, "accelerator")];

/// The device that bytes are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryDevice {
    /// The memory of the host, also where it belongs to the device of a GPU, as pinned memory does.
    Host,
    /// A device of ggml.
    Device(NonNull<ggml_backend_device>),
    /// Memory of a buffer type that names no device, by its address.
    Unnamed(usize),
}

impl MemoryDevice {
    /// Returns the device that the bytes of buffers of a type are on.
    pub fn of(buffer_type: BufferType) -> Self {
        if buffer_type.is_host() {
            return Self::Host;
        }
        match NonNull::new(buffer_type.device_of_type()) {
            // Its buffers may be in layouts that only its own kernels read.
            Some(device) if kind(buffer_type.runtime(), device) == Some(CPU) => Self::Host,
            Some(device) => Self::Device(device),
            None => Self::Unnamed(buffer_type.as_ptr().addr()),
        }
    }

    /// Returns a number that only the same memory has.
    pub fn key(self) -> usize {
        match self {
            Self::Host => 0,
            Self::Device(device) => device.addr().get(),
            Self::Unnamed(address) => address,
        }
    }

    /// Returns what ggml says of the device of buffers of a type.
    fn facts(self, buffer_type: BufferType) -> AccountedDevice {
        let (name, description, kind) = match self {
            Self::Device(device) => device_facts(buffer_type.runtime(), device),
            Self::Host => ("CPU".to_owned(), "the memory of the host".to_owned(), "cpu"),
            Self::Unnamed(_) => (buffer_type.name(), String::new(), "other"),
        };
        AccountedDevice { name, description, kind: kind.to_owned(), ..AccountedDevice::default() }
    }

    /// Returns the free bytes and all bytes that the device reports now; for the host, the numbers of the system.
    pub fn memory(self, runtime: &Runtime) -> Option<[Bytes; 2]> {
        match self {
            Self::Host => host_memory(),
            Self::Unnamed(_) => None,
            Self::Device(device) => {
                let memory = runtime.functions.ggml_backend_dev_memory?;
                let (mut free, mut total) = (0, 0);
                // SAFETY: a device of this ggml, and two numbers.
                unsafe { memory(device.as_ptr(), &raw mut free, &raw mut total) };
                (total > 0).then_some([free as Bytes, total as Bytes])
            }
        }
    }
}

/// Returns the name of the device that the bytes of buffers of a type are on.
pub fn device_name(buffer_type: BufferType) -> String {
    MemoryDevice::of(buffer_type).facts(buffer_type).name
}

/// Returns ggml's number for the kind of a device.
fn kind(runtime: &Runtime, device: NonNull<ggml_backend_device>) -> Option<u32> {
    // SAFETY: a device of this ggml.
    runtime.functions.ggml_backend_dev_type.map(|kind| unsafe { kind(device.as_ptr()) })
}

/// Returns the name, the description and the kind of a device.
fn device_facts(runtime: &Runtime, given: NonNull<ggml_backend_device>) -> (String, String, &'static str) {
    let (functions, device) = (&runtime.functions, given.as_ptr());
    // SAFETY: a device of this ggml.
    let name = functions.ggml_backend_dev_name.map_or(null(), |name| unsafe { name(device) });
    // SAFETY: as above.
    let description = functions.ggml_backend_dev_description.map_or(null(), |it| unsafe { it(device) });
    // SAFETY: null, or strings that end in NUL.
    let [name, description] = [name, description].map(|string| unsafe { text(string) });
    let kind = kind(runtime, given);
    let kind = KINDS.iter().find(|(number, _)| Some(*number) == kind).map_or("other", |(_, kind)| kind);
    (name, description, kind)
}

fn host_memory() -> Option<[Bytes; 2]> {
    Some([free_memory()?, physical_memory()?])
}

/// A live buffer as plain data, with its device.
#[derive(Clone, Debug)]
pub struct DescribedBuffer {
    /// The address of the buffer, which identifies it while it lives.
    pub address: u64,
    /// The device that its bytes are on.
    pub memory: MemoryDevice,
    /// What ggml says of that device.
    pub device: AccountedDevice,
    /// The buffer; its device is not set.
    pub held: HeldBuffer,
}

impl DescribedBuffer {
    /// Describes a live buffer. `asked` are the bytes that its type was asked for, if that is known; otherwise they are the
    /// bytes that it has. `None` for a buffer without a type.
    pub fn new(runtime: &'static Runtime, buffer: BufferRef, asked: Option<Bytes>, is_mapped: bool) -> Option<Self> {
        let buffer_type = runtime.type_of(buffer)?;
        let bytes = runtime.size(buffer);
        // Buffers of several devices have no addresses.
        let base = if buffer_type.places_tensors_itself() { 0 } else { runtime.extent(buffer).0.addr() as Bytes };
        let held = HeldBuffer {
            id: 0,
            device: 0,
            buffer_type: buffer_type.name(),
            usage: usage(runtime, buffer),
            is_mapped,
            is_host: buffer_type.is_host(),
            asked: asked.unwrap_or(bytes),
            bytes,
            base,
            alignment: buffer_type.alignment(),
            contents: BTreeMap::new(),
        };
        let memory = MemoryDevice::of(buffer_type);
        Some(Self { address: address(buffer), memory, device: memory.facts(buffer_type), held })
    }
}

/// Returns what ggml says that a buffer is used for.
pub fn usage(runtime: &Runtime, buffer: BufferRef) -> BufferUsage {
    match runtime.usage(buffer) {
        USAGE_WEIGHTS => BufferUsage::Weights,
        USAGE_COMPUTE => BufferUsage::Compute,
        _ => BufferUsage::Any,
    }
}

/// Returns the address of a buffer.
pub fn address(buffer: BufferRef) -> u64 {
    buffer.as_ptr().addr() as u64
}

/// Describes a tensor, except for its place and the steps at which it is needed.
pub fn tensor(runtime: &Runtime, tensor: TensorRef<'_>, class: MemoryClass, bytes: Bytes) -> AccountedTensor {
    AccountedTensor {
        name: tensor.name(),
        op: runtime.description(tensor),
        element: runtime.element_name(tensor),
        ne: tensor.ne(),
        class,
        bytes,
        view_of: tensor.view_source().map(TensorRef::name),
        resides: None,
        buffer_type: None,
        location: None,
        steps: None,
        executes: None,
    }
}

/// Returns the use of a tensor that no plan places. `is_state` if a node writes to it.
pub fn class(runtime: &Runtime, owner: TensorRef<'_>, is_state: bool) -> MemoryClass {
    let flags = Flags(owner.flags());
    match owner.buffer_ref().map(|buffer| usage(runtime, buffer)) {
        Some(BufferUsage::Weights) => MemoryClass::Weights,
        Some(BufferUsage::Compute) => MemoryClass::Compute,
        _ if flags.has(Flags::PARAM) => MemoryClass::Weights,
        _ if is_state => MemoryClass::Cache,
        _ if owner.op() != 0 || flags.has(Flags::INPUT) => MemoryClass::Other,
        _ => MemoryClass::Weights,
    }
}
