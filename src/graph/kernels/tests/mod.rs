//! Tests of kernels on graphs whose addresses are given.

mod barriers;
mod fusions;
mod preferred;

use crate::graph::tests::sketch::{List, Sketch};
use crate::graph::{Address, BufferIndex, Device, Layout, Requests, TensorId};
use crate::placement::Bytes;

use super::{KernelCosts, Kernels, TensorFacts, costs_at};

/// Bytes of every tensor with one row.
const ROW: Bytes = 256;

/// A graph with the names of its operations.
struct Scene {
    sketch: Sketch,
    ops: Vec<&'static str>,
}

impl TensorFacts for Scene {
    fn op(&self, tensor: TensorId) -> &str {
        match self.ops[tensor as usize] {
            "SILU" | "SIGMOID" => "UNARY",
            op => op,
        }
    }

    fn desc(&self, tensor: TensorId) -> &str {
        self.ops[tensor as usize]
    }

    fn layout(&self, tensor: TensorId) -> Layout {
        self.sketch.drafts[tensor as usize].layout
    }

    fn nbytes(&self, tensor: TensorId) -> Bytes {
        self.sketch.drafts[tensor as usize].nbytes
    }
}

impl Scene {
    fn new() -> Self {
        Self { sketch: Sketch::new(), ops: Vec::new() }
    }

    /// Adds a tensor of 64 numbers a row.
    fn add(&mut self, list: List, op: &'static str, rows: Bytes, sources: &[TensorId]) -> TensorId {
        let id = self.sketch.add(list, ROW * rows, sources);
        let ne = [64, i64::try_from(rows).expect("few rows"), 1, 1];
        self.sketch.draft(id).layout = Layout { element: 0, ne, nb: [4, ROW, ROW * rows, ROW * rows] };
        self.ops.push(op);
        id
    }

    fn leaf(&mut self) -> TensorId {
        self.add(List::Leafs, "NONE", 1, &[])
    }

    fn node(&mut self, op: &'static str, sources: &[TensorId]) -> TensorId {
        self.add(List::Nodes, op, 1, sources)
    }

    fn kernels(&self, device: Device) -> Option<Kernels> {
        let (leafs, nodes) = (self.sketch.requests(List::Leafs), self.sketch.requests(List::Nodes));
        Kernels::find(&self.sketch.graph(), Requests { leafs: &leafs, nodes: &nodes }, (0, device, 16), self)
    }

    /// Returns the costs on a Vulkan device where each tensor begins at an offset, by id; those without one have their
    /// own memory.
    fn costs(&self, offsets: &[(TensorId, Bytes)]) -> KernelCosts {
        self.costs_on(Device::Vulkan, offsets)
    }

    fn costs_on(&self, device: Device, offsets: &[(TensorId, Bytes)]) -> KernelCosts {
        let kernels = self.kernels(device).expect("a known device");
        let address = |id: TensorId| {
            let (_, offset) = *offsets.iter().find(|(tensor, _)| *tensor == id)?;
            Some(Address { buffer: 0 as BufferIndex, chunk: 0, offset })
        };
        costs_at(&kernels, &self.sketch.graph(), self, &address)
    }
}
