//! One live buffer as plain data.

use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::memory_device::MemoryDevice;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::{USAGE_COMPUTE, USAGE_WEIGHTS};
use crate::offload::accounting::{AccountedDevice, BufferUsage, HeldBuffer};
use crate::placement::Bytes;

/// A live buffer as plain data, with its device.
#[derive(Clone, Debug)]
pub struct DescribedBuffer {
    /// The address of the buffer, which identifies it while it lives.
    pub address: u64,
    /// Where its bytes are.
    pub memory: MemoryDevice,
    /// The type that ggml reports for that device.
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
            device: 0,
            buffer_type: buffer_type.name(),
            usage: usage(runtime, buffer),
            is_mapped,
            is_host: buffer_type.is_host(),
            asked: asked.unwrap_or(bytes),
            bytes,
            base,
            alignment: buffer_type.alignment(),
        };
        let (memory, device) = (buffer_type.memory_device(), buffer_type.device_facts());
        Some(Self { address: address(buffer), memory, device, held })
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
