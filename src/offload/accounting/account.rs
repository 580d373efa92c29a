//! The result of accounting: devices, buffers, and graphs with their tensors.

use crate::placement::Bytes;

use super::sums::{MemoryClass, Sums};

/// A step of a graph: the position of a node.
pub type Step = u32;

/// The memory of the devices of a process. Buffers and tensors refer to devices by their positions, tensors to buffers
/// by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounting {
    /// The number of the process.
    pub process: u32,
    /// The version of its ggml, as far as one is known.
    pub ggml: String,
    /// The devices.
    pub devices: Vec<AccountedDevice>,
    /// The buffers, in the order of their numbers.
    pub buffers: Vec<AccountedBuffer>,
    /// The graphs: one for each graph allocator, or those that were given.
    pub graphs: Vec<AccountedGraph>,
    /// Tensors in buffers that no graph has.
    pub unread: Vec<AccountedTensor>,
}

/// A device, or the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountedDevice {
    /// Its name as ggml has it: "CPU", "CUDA0".
    pub name: String,
    /// Its description, in the words of its backend.
    pub description: String,
    /// "cpu", "gpu", "integrated gpu", "accelerator", "other".
    pub kind: String,
    /// The memory that the device reported when it held the most.
    pub memory: Option<DeviceMemory>,
    /// The sums of its buffers.
    pub sums: Sums,
}

/// The memory that a device reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Free bytes.
    pub free: Bytes,
    /// All bytes.
    pub total: Bytes,
}

/// The usage of a buffer according to ggml.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BufferUsage {
    /// Not said.
    #[default]
    Any,
    /// Weights.
    Weights,
    /// Results of graphs.
    Compute,
}

impl BufferUsage {
    /// Returns the name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Weights => "weights",
            Self::Compute => "compute",
        }
    }

    /// Returns the usage with this name.
    pub fn with_name(name: &str) -> Option<Self> {
        [Self::Any, Self::Weights, Self::Compute].into_iter().find(|usage| usage.name() == name)
    }

    /// Returns what bytes are for that no known tensor takes.
    pub fn rest(self) -> MemoryClass {
        match self {
            Self::Any => MemoryClass::Other,
            Self::Weights => MemoryClass::Weights,
            Self::Compute => MemoryClass::Compute,
        }
    }
}

/// A buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountedBuffer {
    /// Its number in the process, from 1.
    pub id: u64,
    /// The device that it lies on.
    pub device: usize,
    /// The name of its type.
    pub buffer_type: String,
    /// Its usage according to ggml.
    pub usage: BufferUsage,
    /// True for memory of the program that was made a buffer, for example a mapped file.
    pub is_mapped: bool,
    /// Bytes that the buffer type was asked for.
    pub asked: Bytes,
    /// Bytes that the buffer has.
    pub bytes: Bytes,
    /// The use of the requested bytes.
    pub sums: Sums,
}

/// A graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountedGraph {
    /// The number of its graph allocator in the process; `None` for a graph that was given.
    pub allocator: Option<u64>,
    /// The number of its leafs.
    pub leafs: usize,
    /// The number of its nodes.
    pub nodes: usize,
    /// Its leafs, its nodes, and the tensors that these refer to.
    pub tensors: Vec<AccountedTensor>,
}

/// A place in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The number of the buffer.
    pub buffer: u64,
    /// Bytes from its start.
    pub offset: Bytes,
}

/// The steps at which a tensor has a value that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The node that computes it or, for tensors that no node computes, the first that reads it.
    pub first: Step,
    /// The last node that reads it or a view of it.
    pub last: Step,
}

/// A tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountedTensor {
    /// Its name.
    pub name: String,
    /// The operation that computes it; "NONE" where there is none.
    pub op: String,
    /// The type of its elements.
    pub element: String,
    /// Its extents.
    pub ne: [i64; 4],
    /// The use of its bytes; that of a view is its root's.
    pub class: MemoryClass,
    /// Bytes that it takes in its buffer; for a view, the bytes from its first to its last element.
    pub bytes: Bytes,
    /// The root, for a view.
    pub view_of: Option<String>,
    /// The device where it resides; `None` for memory in no buffer.
    pub device: Option<usize>,
    /// The name of its buffer type.
    pub buffer_type: Option<String>,
    /// Where it lies. `None` for memory in no buffer, for tensors without memory, and where the buffer was freed before the
    /// moment that the accounting is of.
    pub location: Option<Location>,
    /// When it is needed; `None` if no node computes or reads it.
    pub steps: Option<Steps>,
    /// The device or backend that executes its operation; `None` where nothing is executed, as for a view.
    pub executes: Option<String>,
}

impl AccountedTensor {
    /// Returns `true` for a tensor that owns its memory.
    pub fn is_owner(&self) -> bool {
        self.view_of.is_none()
    }
}

impl Accounting {
    /// Returns the tensors of all graphs, then those that no graph has.
    pub fn tensors(&self) -> impl Iterator<Item = &AccountedTensor> {
        self.graphs.iter().flat_map(|graph| &graph.tensors).chain(&self.unread)
    }

    /// Returns the sums of all devices.
    pub fn sums(&self) -> Sums {
        let mut all = Sums::default();
        self.devices.iter().for_each(|device| all.add(&device.sums));
        all
    }

    /// Returns the name of a device.
    pub fn device_name(&self, device: Option<usize>) -> Option<&str> {
        device.and_then(|device| self.devices.get(device)).map(|device| device.name.as_str())
    }
}
