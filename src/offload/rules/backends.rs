//! Backends in the order of their priority, the buffer types that tensors are in, and what each backend can do.

use crate::graph::{BufferIndex, BufferSpec, Device, TensorId};
use crate::placement::{Bytes, Effort};

/// Position of a backend in the order of priority.
pub type BackendIndex = u32;

/// Position of a buffer type in [`Backends::buffer_types`].
pub type BufferTypeIndex = u32;

/// The most backends that a scheduler of ggml takes.
pub const MAX_BACKENDS: usize = 16;

/// A buffer type that weights, caches or compute buffers are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferType {
    /// ggml's name.
    pub name: String,
    /// True if the CPU can read it: `ggml_backend_buft_is_host`.
    pub is_host: bool,
    /// Alignment, largest chunk and rules of compute buffers of this type.
    pub buffer: BufferSpec,
}

impl BufferType {
    /// Describes a buffer type without a largest chunk, with the default effort and the rules that lastuse uses where
    /// `device` computes. Pinned memory of a GPU can be read by the host, and counts as the GPU's.
    pub fn new(name: impl Into<String>, device: Device, is_host: bool, alignment: Bytes) -> Self {
        let (rules, effort) = (device.default_rules(), Effort::default());
        Self { name: name.into(), is_host, buffer: BufferSpec { alignment, max_chunk: None, rules, effort } }
    }
}

/// A backend of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// ggml's name; copies of tensors are named after it.
    pub name: String,
    /// The type of its compute buffer.
    pub buffer_type: BufferTypeIndex,
}

/// What `ggml_backend_sched_new` receives: backends, the first of the highest priority and the last one the CPU, each
/// with the type of its compute buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backends {
    /// The backends by priority.
    pub list: Vec<Backend>,
    /// The types of compute buffers, and those of all other buffers that tensors are in.
    pub buffer_types: Vec<BufferType>,
}

impl Backends {
    /// Returns the backend of the lowest priority, which is the CPU.
    pub fn host(&self) -> BackendIndex {
        self.indices().next_back().unwrap_or(0)
    }

    /// Returns all backends, by priority.
    pub fn indices(&self) -> std::ops::Range<BackendIndex> {
        0..u32::try_from(self.list.len()).expect("few backends")
    }

    /// Returns the type of the compute buffer of a backend.
    pub fn buffer_type(&self, backend: BackendIndex) -> BufferTypeIndex {
        self.list[backend as usize].buffer_type
    }

    /// Returns the types of the compute buffers, each once, in the order of the first backend that has it.
    pub fn compute_types(&self) -> Vec<BufferTypeIndex> {
        let mut types = Vec::with_capacity(self.list.len());
        for backend in &self.list {
            if !types.contains(&backend.buffer_type) {
                types.push(backend.buffer_type);
            }
        }
        types
    }

    /// Returns, by backend, the position of its buffer type in [`Backends::compute_types`]: backends with one type share
    /// a compute buffer.
    pub fn compute_buffers(&self) -> Vec<BufferIndex> {
        let types = self.compute_types();
        let position = |backend: &Backend| types.iter().position(|&shared| shared == backend.buffer_type);
        self.list.iter().map(|backend| BufferIndex::try_from(position(backend).unwrap_or(0)).unwrap_or(0)).collect()
    }
}

/// An allocation dependency that a backend adds when it optimizes a split: `add_alloc_dep` of ggml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptUntil {
    /// The tensor whose memory is kept.
    pub tensor: TensorId,
    /// The node of the same split until which it is kept.
    pub until: TensorId,
}

/// The questions that ggml's scheduler asks its backends. Tensors are those of the graph, never copies.
pub trait Capabilities {
    /// Returns `true` if `backend` can run the operation of `tensor`: `ggml_backend_supports_op`. Leafs are asked for
    /// too.
    fn supports_op(&self, backend: BackendIndex, tensor: TensorId) -> bool;

    /// Returns `true` if `backend` can use tensors in buffers of this type: `ggml_backend_supports_buft`.
    fn supports_buffer_type(&self, backend: BackendIndex, buffer_type: BufferTypeIndex) -> bool;

    /// Returns `true` if `backend` should run `node` although its weight is on the host: `ggml_backend_offload_op`.
    fn offloads_op(&self, backend: BackendIndex, node: TensorId) -> bool;

    /// Puts the nodes of a split into the order in which `backend` runs them, and returns what must be kept longer:
    /// `graph_optimize` of ggml's interface of backends. `is_copied` returns `true` for tensors that the split reads a
    /// copy of; where one is kept, its copy is. The default changes nothing, as most backends do.
    fn optimize(
        &self,
        backend: BackendIndex,
        nodes: &mut [TensorId],
        is_copied: &dyn Fn(TensorId) -> bool,
    ) -> Vec<KeptUntil> {
        let _ = (backend, nodes, is_copied);
        Vec::new()
    }
}
