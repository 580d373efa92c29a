//! The input of a program, devices and items to place on them; and why they are not placed.

use std::fmt;
use std::ptr::NonNull;

use crate::offload::captured::{class, layer};
use crate::offload::device::{Device, DeviceIndex};
use crate::offload::item::{Item, ItemClass, ItemKind, Rows};
use crate::offload::planner::{NotPlaced, Order, Spread};
use crate::placement::Bytes;

use crate::ggml::bindings::{ggml_backend, ggml_tensor};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;

/// The alignment that is assumed where no buffer type says it: no backend of ggml requires more.
const UNKNOWN_ALIGNMENT: Bytes = 128;

/// The rule by which intermediates are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadRule {
    /// That of ggml's scheduler.
    Scheduler,
    /// On a device if any operand is there.
    AnyOperand,
    /// PowerInfer's.
    PowerInfer,
}

/// How it is placed.
#[derive(Clone, Copy, Debug)]
pub struct PlannerSettings {
    /// In which order items are placed.
    pub order: Order,
    /// The item that may be together with others on a device.
    pub spread: Spread,
    /// Where intermediates are.
    pub rule: OffloadRule,
    /// Whether a scheduler gives operations on batches to a device though their weights are on the host.
    pub op_offload: bool,
    /// Whether the program allocates graphs itself, so that nothing is copied between devices by a scheduler.
    pub is_direct: bool,
    /// How many offload plans may be measured.
    pub measurements: u32,
}

/// A device, with what ggml knows of it.
#[derive(Clone, Debug)]
pub struct LiveDevice {
    /// Its budget and how it hands out memory.
    pub device: Device,
    /// The type of its buffers, if known.
    pub buffer_type: Option<BufferType>,
    /// The backend that computes there, if known.
    pub backend: Option<NonNull<ggml_backend>>,
}

impl LiveDevice {
    /// Completes `device`: an alignment of 0 and a missing largest buffer are those of the buffer type.
    pub fn new(device: Device, buffer_type: Option<BufferType>, backend: Option<NonNull<ggml_backend>>) -> Self {
        let alignment = match device.alignment {
            0 => buffer_type.map_or(UNKNOWN_ALIGNMENT, BufferType::alignment),
            given => given,
        };
        let max_buffer = device.max_buffer.or_else(|| buffer_type.and_then(BufferType::max_size));
        Self { device: Device { alignment, max_buffer, ..device }, buffer_type, backend }
    }
}

/// A weight or a cache.
#[derive(Clone, Debug)]
pub struct LiveItem {
    /// The tensor, if there is one. It is not in a buffer yet, or in any.
    pub tensor: Option<NonNull<ggml_tensor>>,
    /// Its name; that of the tensor if missing.
    pub name: Option<String>,
    /// Its bytes; if missing, the size that the buffer types require for the tensor.
    pub bytes: Option<Bytes>,
    /// Which buffers it is in.
    pub kind: ItemKind,
    /// Its use; derived from its name if missing.
    pub class: Option<ItemClass>,
    /// The layer of the model; by its name if missing.
    pub layer: Option<u32>,
    /// The benefit of having it on a device; if missing, the bytes of it that the graphs read.
    pub benefit: Option<f64>,
    /// The device that it must be on.
    pub pinned: Option<DeviceIndex>,
    /// Rows that can be on a device by themselves.
    pub rows: Option<Rows>,
}

impl LiveItem {
    /// Returns the item for the planner. The tensor takes the most bytes that any of the buffer types requires.
    ///
    /// # Safety
    /// The tensor is live.
    pub unsafe fn item(&self, runtime: Option<&Runtime>, devices: &[LiveDevice]) -> Item {
        // SAFETY: a live tensor, as the caller guarantees.
        let tensor = self.tensor.map(|tensor| unsafe { TensorRef::from_non_null(tensor) });
        let name = self.name.clone().or_else(|| tensor.map(TensorRef::name)).unwrap_or_default();
        let required = |tensor: TensorRef<'_>| {
            let by_types = devices.iter().filter_map(|device| device.buffer_type).map(|it| it.alloc_size(tensor)).max();
            by_types.or_else(|| runtime.map(|runtime| runtime.nbytes(tensor)))
        };
        Item {
            kind: self.kind,
            class: self.class.unwrap_or_else(|| class(&name, self.kind == ItemKind::Cache)),
            bytes: self.bytes.or_else(|| tensor.and_then(required)).unwrap_or(0),
            layer: self.layer.or_else(|| layer(&name)),
            benefit: self.benefit.unwrap_or(0.0),
            pinned: self.pinned,
            rows: self.rows.clone(),
            is_on_host: false,
            name,
        }
    }
}

/// Why tensors are not placed.
#[derive(Clone, Debug, PartialEq)]
pub enum OffloadFailure {
    /// There are neither graphs nor a function that measures.
    NothingToMeasure,
    /// There are both graphs and a function that measures.
    MeasuredTwice,
    /// An item is a view.
    ItemIsView {
        /// The item.
        item: String,
        /// The tensor that it is a view of.
        root: String,
    },
    /// A tensor of a graph has memory of a type that no device has.
    UnknownMemory {
        /// The tensor.
        tensor: String,
        /// ggml's name of the buffer type.
        buffer_type: String,
    },
    /// A rule cannot place the intermediates of a graph.
    Graph {
        /// Which graph, from 0.
        graph: usize,
        /// Why.
        why: String,
    },
    /// Nothing has been placed yet.
    NotSolved,
    /// A scheduler has another number of backends than there are devices.
    SchedulerBackends {
        /// The backends of the scheduler.
        backends: usize,
        /// The devices.
        devices: usize,
    },
    /// The rule keeps results where no scheduler does.
    NotSchedulable,
    /// This ggml has no scheduler.
    NoScheduler,
    /// The planner found no offload.
    NotPlaced(NotPlaced),
}

impl fmt::Display for OffloadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToMeasure => write!(
                f,
                "there is no graph and no function that measures: add a graph, or set measure in the parameters"
            ),
            Self::MeasuredTwice => write!(f, "there are both graphs and a function that measures; use one of them"),
            Self::ItemIsView { item, root } => {
                write!(f, "{item:?} is a view, which is where its root is: add {root:?} instead")
            }
            Self::UnknownMemory { tensor, buffer_type } => write!(
                f,
                "{tensor:?} is in a buffer of type {buffer_type}, which no device has: add it as an item, or a device \
                 with this buffer type"
            ),
            Self::Graph { graph, why } => write!(f, "graph {graph} cannot be placed: {why}"),
            Self::NotSolved => write!(f, "nothing has been placed yet: call lastuse_offload_solve first"),
            Self::SchedulerBackends { backends, devices } => write!(
                f,
                "the scheduler has {backends} backends and there are {devices} devices: add one device for each \
                 backend, in the order of the scheduler"
            ),
            Self::NotSchedulable => write!(
                f,
                "PowerInfer's rule keeps results where ggml's scheduler does not; place with another rule, or compute \
                 the graph without a scheduler"
            ),
            Self::NoScheduler => write!(f, "this ggml has no ggml_backend_sched_set_tensor_backend"),
            Self::NotPlaced(why) => why.fmt(f),
        }
    }
}

impl From<NotPlaced> for OffloadFailure {
    fn from(why: NotPlaced) -> Self {
        Self::NotPlaced(why)
    }
}
