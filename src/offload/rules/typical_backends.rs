//! Common capabilities of ggml's backends, for captured graphs, where no real backend can be queried.

use std::cell::OnceCell;

use crate::graph::{Op, TensorId};

use super::backends::{BackendIndex, Backends, BufferTypeIndex, Capabilities, KeptUntil};
use super::placed_graph::PlacedGraph;
use super::vulkan_order::vulkan_order;

/// Operations that ggml's backends for GPUs leave to the CPU: functions of the program, and those that no published
/// model needs.
const CPU_ONLY: [Op; 14] = [
    Op::AddRelPos,
    Op::Custom,
    Op::DiagMaskZero,
    Op::FlashAttnBack,
    Op::GetRelPos,
    Op::Im2colBack,
    Op::MapBinary,
    Op::MapCustom1,
    Op::MapCustom2,
    Op::MapCustom3,
    Op::MapUnary,
    Op::Pool2dBack,
    Op::WinPart,
    Op::WinUnpart,
];

/// The batch from which backends of ggml offload an operation, unless `GGML_OP_OFFLOAD_MIN_BATCH` says otherwise.
const OFFLOAD_BATCH: u64 = 32;

/// How ggml's Vulkan backend begins the names of its devices.
const VULKAN: &str = "Vulkan";

/// Assumed capabilities. A backend whose compute buffer the host can read is a CPU, any other is a GPU:
///
/// - A CPU supports every operation, and all memory that the host can read.
/// - A GPU supports all operations but those for which ggml has no kernels on GPUs, products of F16 with another type of
///   weight, and those with a source in the memory of another GPU. It can use its own memory alone.
/// - A GPU whose name begins with "Vulkan" changes the order of nodes as ggml's Vulkan backend does.
/// - A GPU offloads operations on batches of 32 and more, except for GET_ROWS. The batch is the second extent of a
///   MUL_MAT, the third of MUL_MAT_ID and ROPE, and the number of rows of anything else, as in CUDA and Vulkan.
#[derive(Clone, Debug)]
pub struct TypicalBackends<'a> {
    placed: PlacedGraph<'a>,
    backends: &'a Backends,
    /// How often each tensor is a source, counted when it is needed.
    uses: OnceCell<Vec<u32>>,
}

impl<'a> TypicalBackends<'a> {
    /// Assumes typical capabilities for these backends.
    pub fn new(placed: PlacedGraph<'a>, backends: &'a Backends) -> Self {
        Self { placed, backends, uses: OnceCell::new() }
    }

    fn is_cpu(&self, backend: BackendIndex) -> bool {
        self.is_host(self.backends.buffer_type(backend))
    }

    fn is_host(&self, buffer_type: BufferTypeIndex) -> bool {
        self.backends.buffer_types[buffer_type as usize].is_host
    }

    /// Returns `true` if a source of `tensor` is in memory that belongs to another GPU.
    fn reads_another_gpu(&self, backend: BackendIndex, tensor: TensorId) -> bool {
        let own = self.backends.buffer_type(backend);
        let memory = |&source: &TensorId| self.placed.memory.get(source as usize).copied().flatten();
        let mut sources = self.placed.graph().sources(tensor).iter().filter_map(memory);
        sources.any(|memory| memory.buffer_type != own && !self.is_host(memory.buffer_type))
    }

    /// Returns `true` for a product of F16 with a weight of another type.
    fn is_mixed_product(&self, tensor: TensorId) -> bool {
        let element = |&source: &TensorId| self.placed.snapshot.tensors[source as usize].element.as_ref();
        match self.placed.graph().sources(tensor) {
            [a, b, ..] if self.placed.op(tensor).starts_with("MUL_MAT") => element(b) == "f16" && element(a) != "f16",
            _ => false,
        }
    }

    /// Returns the number of rows that an operation treats alike.
    fn batch(&self, node: TensorId) -> u64 {
        let [_, rows, planes, volumes] = self.placed.graph().layout(node).ne.map(i64::unsigned_abs);
        match self.placed.graph().tensor(node).op {
            Op::GetRows => 0,
            Op::MulMat => rows,
            Op::MulMatId | Op::Rope | Op::RopeBack => planes,
            _ => rows.saturating_mul(planes).saturating_mul(volumes),
        }
    }
}

impl Capabilities for TypicalBackends<'_> {
    fn supports_op(&self, backend: BackendIndex, tensor: TensorId) -> bool {
        self.is_cpu(backend)
            || (!CPU_ONLY.contains(&self.placed.graph().tensor(tensor).op)
                && !self.is_mixed_product(tensor)
                && !self.reads_another_gpu(backend, tensor))
    }

    fn supports_buffer_type(&self, backend: BackendIndex, buffer_type: BufferTypeIndex) -> bool {
        let own = self.backends.buffer_type(backend) == buffer_type;
        own || (self.is_cpu(backend) && self.is_host(buffer_type))
    }

    fn offloads_op(&self, backend: BackendIndex, node: TensorId) -> bool {
        !self.is_cpu(backend) && self.batch(node) >= OFFLOAD_BATCH
    }

    fn optimize(
        &self,
        backend: BackendIndex,
        nodes: &mut [TensorId],
        is_copied: &dyn Fn(TensorId) -> bool,
    ) -> Vec<KeptUntil> {
        let is_vulkan = self.backends.list[backend as usize].name.starts_with(VULKAN);
        if !is_vulkan {
            return Vec::new();
        }
        let uses = self.uses.get_or_init(|| self.placed.graph().use_counts());
        vulkan_order(self.placed, uses, nodes, is_copied)
    }
}
