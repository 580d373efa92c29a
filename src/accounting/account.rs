//! The result of accounting: devices, buffers, and graphs with their tensors. The fields have the names of the keys in JSON,
//! unless an attribute says otherwise.

#[cfg(feature = "serde")]
use serde::Deserialize;

use crate::placement::Bytes;

use super::sums::{MemoryClass, Sums};

/// A step of a graph: the position of a node.
pub type Step = u32;

/// The memory of the devices of a process. Buffers and tensors refer to devices by their names, which are unique, and
/// tensors to buffers by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Deserialize))]
pub struct Accounting {
    /// The number of the process.
    pub process: u32,
    /// The version of its ggml, as far as one is known.
    pub ggml: String,
    /// The devices.
    pub devices: Vec<AccountedDevice>,
    /// The buffers, in the order of their numbers.
    pub buffers: Vec<AccountedBuffer>,
    /// The graphs: of each graph allocator those that take the most of one of its buffers.
    pub graphs: Vec<AccountedGraph>,
    /// Tensors in buffers that no graph has.
    pub unread: Vec<AccountedTensor>,
    /// The allocators that share memory, each time that another one allocates a graph.
    pub turns: Vec<AllocatorTurn>,
    /// Resident bytes of the process over time, as the tool samples them; not in JSON.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub resident: Vec<BytesAt>,
}

/// Bytes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Deserialize))]
pub struct BytesAt {
    /// Milliseconds since recording began.
    pub ms: u64,
    /// The bytes from then on.
    pub bytes: Bytes,
}

/// The turn of an allocator that shares memory with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Deserialize))]
pub struct AllocatorTurn {
    /// Milliseconds since recording began.
    pub ms: u64,
    /// The number of the allocator in the process.
    pub allocator: u64,
    /// The bytes that its graph needs.
    pub bytes: Bytes,
}

/// The most times that are kept of one device or process, and turns.
pub const MOST_TIMES: usize = 512;

impl BytesAt {
    /// Adds the bytes of a later time. Where there are too many, the larger one of each pair stays, so that no peak is lost.
    pub fn add_to(self, history: &mut Vec<Self>) {
        add_at(history, self, |at| at.bytes);
    }
}

/// What a device held at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumsAt {
    /// Milliseconds since sampling began.
    pub ms: u64,
    /// The bytes by use.
    pub sums: Sums,
    /// The bytes that were in memory, as far as that is known.
    pub resident: Option<Bytes>,
}

impl SumsAt {
    /// Adds a later sample, as [`BytesAt::add_to`].
    pub fn add_to(self, samples: &mut Vec<Self>) {
        add_at(samples, self, |at| at.sums.total());
    }
}

fn add_at<T: Copy>(times: &mut Vec<T>, new: T, bytes: impl Fn(&T) -> Bytes) {
    if times.len() >= MOST_TIMES {
        let larger = |pair: &[T]| pair.iter().copied().max_by_key(&bytes);
        *times = times.chunks(2).filter_map(larger).collect();
    }
    times.push(new);
}

/// A device, or the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Deserialize))]
pub struct AccountedDevice {
    /// Its name as ggml has it: "CPU", "CUDA0".
    pub name: String,
    /// Its description, in the words of its backend.
    pub description: String,
    /// "cpu", "gpu", "integrated gpu", "accelerator", "other".
    pub kind: String,
    /// The free bytes that the device reported when it held the most.
    pub free: Option<Bytes>,
    /// All bytes that it reported then.
    pub memory: Option<Bytes>,
    /// The sums of its buffers.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub sums: Sums,
    /// The bytes that it held, each time that they changed.
    pub history: Vec<BytesAt>,
    /// What it held, and what of it was in memory, as the tool samples them; not in JSON.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub samples: Vec<SumsAt>,
}

/// The usage of a buffer according to ggml.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Deserialize), serde(rename_all = "lowercase"))]
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

    /// Returns the use of bytes that no known tensor takes.
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
#[cfg_attr(feature = "serde", derive(Deserialize))]
pub struct AccountedBuffer {
    /// Its number in the process, from 1.
    pub id: u64,
    /// The device that it lies on.
    pub device: String,
    /// The name of its type.
    pub buffer_type: String,
    /// Its usage according to ggml.
    pub usage: BufferUsage,
    /// True for memory of the program that was made a buffer, for example a mapped file.
    pub mapped: bool,
    /// Bytes that the buffer type was asked for.
    pub asked: Bytes,
    /// Bytes that the buffer has.
    pub bytes: Bytes,
    /// Bytes of it that are in memory; `None` if that cannot be known, as for devices and mapped files.
    pub resident: Option<Bytes>,
    /// The use of the requested bytes.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub sums: Sums,
}

/// A graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Deserialize))]
pub struct AccountedGraph {
    /// The number of its graph allocator in the process.
    pub allocator: u64,
    /// The number of its leafs.
    pub leafs: usize,
    /// The number of its nodes.
    pub nodes: usize,
    /// Its leafs, its nodes, and the tensors that these refer to.
    pub tensors: Vec<AccountedTensor>,
}

/// A place in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Deserialize))]
pub struct Location {
    /// The number of the buffer.
    pub buffer: u64,
    /// Bytes from its start.
    pub offset: Bytes,
}

/// The steps at which a tensor has a value that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Deserialize))]
pub struct Steps {
    /// The node that computes it or, for tensors that no node computes, the first that reads it.
    #[cfg_attr(feature = "serde", serde(rename = "first_step"))]
    pub first: Step,
    /// The last node that reads it or a view of it.
    #[cfg_attr(feature = "serde", serde(rename = "last_step"))]
    pub last: Step,
}

/// A tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Deserialize))]
pub struct AccountedTensor {
    /// Its name.
    pub name: String,
    /// The operation that computes it; "NONE" where there is none.
    pub op: String,
    /// The type of its elements.
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
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
    pub resides: Option<String>,
    /// The name of its buffer type.
    pub buffer_type: Option<String>,
    /// Its place. `None` for memory in no buffer, for tensors without memory, and if the buffer was freed before the
    /// moment that the accounting is of.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub location: Option<Location>,
    /// When it is needed; `None` if no node computes or reads it.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub steps: Option<Steps>,
    /// The device that executes its operation; `None` where nothing is executed, as for a view.
    pub executes: Option<String>,
}

impl Accounting {
    /// Returns the sums of all devices.
    pub fn sums(&self) -> Sums {
        let mut all = Sums::default();
        self.devices.iter().for_each(|device| all.add(&device.sums));
        all
    }
}
