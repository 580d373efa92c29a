//! Small graphs with weights on devices.

use crate::graph::snapshot::{Snapshot, TensorInfo};
use crate::graph::tests::sketch::{List, Sketch};
use crate::graph::{Device, Flags, Op, TensorId};
use crate::offload::rules::{
    Backend, BackendIndex, Backends, BufferType, BufferTypeIndex, PlacedGraph, TensorMemory, TypicalBackends, Usage,
};
use crate::placement::Bytes;

pub const GPU: BackendIndex = 0;
pub const CPU: BackendIndex = 1;

/// One GPU and the CPU; buffer types have the numbers of the backends.
pub fn gpu_and_cpu() -> Backends {
    let backend = |name: &str, buffer_type: BufferTypeIndex| Backend { name: name.to_owned(), buffer_type };
    Backends {
        list: vec![backend("GPU", 0), backend("CPU", 1)],
        buffer_types: vec![
            BufferType::new("GPU", Device::Gpu, false, 16),
            BufferType::new("CPU", Device::Cpu, true, 16),
        ],
    }
}

/// A graph under construction. Sizes are extents: elements have one byte.
pub struct Scene {
    sketch: Sketch,
    ops: Vec<String>,
    names: Vec<String>,
    pub memory: Vec<Option<TensorMemory>>,
    pub assigned: Vec<(TensorId, BackendIndex)>,
}

impl Scene {
    pub fn new() -> Self {
        let (ops, names, memory) = (Vec::new(), Vec::new(), Vec::new());
        Self { sketch: Sketch::new(), ops, names, memory, assigned: Vec::new() }
    }

    fn add(&mut self, id: TensorId, op: &str, memory: Option<TensorMemory>) -> TensorId {
        self.ops.push(op.to_owned());
        self.sketch.draft(id).tensor.op = Op::named(op);
        self.names.push(format!("t{id}"));
        self.memory.push(memory);
        id
    }

    /// A weight in the memory of a backend.
    pub fn weight(&mut self, size: Bytes, buffer_type: BufferTypeIndex) -> TensorId {
        let id = self.sketch.leaf(size);
        self.sketch.draft(id).tensor.external = true;
        self.add(id, "NONE", Some(TensorMemory { buffer_type, usage: Usage::Weights }))
    }

    /// A cache in the memory of a backend.
    pub fn cache(&mut self, size: Bytes, buffer_type: BufferTypeIndex) -> TensorId {
        let id = self.weight(size, buffer_type);
        self.memory[id as usize] = Some(TensorMemory { buffer_type, usage: Usage::Other });
        id
    }

    /// A leaf without memory that is not flagged as an input.
    pub fn unflagged_leaf(&mut self, size: Bytes) -> TensorId {
        let id = self.sketch.leaf(size);
        self.add(id, "NONE", None)
    }

    /// An input of the program.
    pub fn input(&mut self, size: Bytes) -> TensorId {
        let id = self.sketch.leaf(size);
        self.sketch.flag(id, Flags::INPUT);
        self.add(id, "NONE", None)
    }

    /// A node of `size` columns and `rows` rows.
    pub fn node(&mut self, op: &str, [size, rows]: [Bytes; 2], sources: &[TensorId]) -> TensorId {
        let id = self.sketch.add(List::Nodes, size * rows, sources);
        let layout = &mut self.sketch.draft(id).layout;
        let extent = |bytes: Bytes| i64::try_from(bytes).expect("sizes are small");
        layout.ne = [extent(size), extent(rows), 1, 1];
        layout.nb = [1, size, size * rows, size * rows];
        self.sketch.flag(id, Flags::COMPUTE);
        self.add(id, op, None)
    }

    /// A view of a whole tensor; with the operation VIEW it computes nothing.
    pub fn view(&mut self, op: &str, root: TensorId, size: Bytes, sources: &[TensorId]) -> TensorId {
        let id = self.sketch.view(root, 0, size);
        self.sketch.draft(id).sources = sources.to_vec();
        self.add(id, op, None)
    }

    pub fn name(&mut self, id: TensorId, name: &str) {
        name.clone_into(&mut self.names[id as usize]);
    }

    pub fn snapshot(&self) -> Snapshot {
        let drafts = self.sketch.drafts.iter().zip(&self.ops).zip(&self.names);
        let info = |(id, ((draft, op), name)): (u64, ((&_, &String), &String))| {
            let crate::graph::tests::sketch::Draft { size, nbytes, .. } = *draft;
            TensorInfo {
                id,
                name: name.clone(),
                op: op.as_str().into(),
                desc: op.as_str().into(),
                element: "i8".into(),
                nbytes,
                size,
                buffer: 0,
                elsewhere: Vec::new(),
            }
        };
        Snapshot {
            label: "scene".to_owned(),
            buffers: Vec::new(),
            graph: self.sketch.graph(),
            tensors: (0..).zip(drafts).map(info).collect(),
        }
    }

    /// Calls a function with the graph, its backends and their typical capabilities.
    pub fn with<R>(&self, backends: &Backends, then: impl FnOnce(PlacedGraph<'_>, &TypicalBackends<'_>) -> R) -> R {
        let snapshot = self.snapshot();
        let placed = PlacedGraph { snapshot: &snapshot, memory: &self.memory, assigned: &self.assigned };
        then(placed, &TypicalBackends::new(placed, backends))
    }
}
