//! Tests of kernels on graphs whose addresses are given.

mod barriers;
mod fusions;
mod preferred;

use std::sync::Arc;

use crate::graph::tests::sketch::{List, Sketch};
use crate::graph::{Address, BufferIndex, Device, Layout, Op, Requests, TensorId};
use crate::placement::Bytes;

use super::{KernelCosts, Kernels, costs_at};

/// Bytes of every tensor with one row.
const ROW: Bytes = 256;

/// A graph with the descriptions of its operations.
struct Scene {
    sketch: Sketch,
    descs: Vec<&'static str>,
}

impl Scene {
    fn new() -> Self {
        Self { sketch: Sketch::new(), descs: Vec::new() }
    }

    /// Adds a tensor of 64 numbers a row.
    fn add(&mut self, list: List, op: &'static str, rows: Bytes, sources: &[TensorId]) -> TensorId {
        let id = self.sketch.add(list, ROW * rows, sources);
        let ne = [64, i64::try_from(rows).expect("few rows"), 1, 1];
        self.sketch.draft(id).layout = Layout { element: 0, ne, nb: [4, ROW, ROW * rows, ROW * rows] };
        self.sketch.draft(id).tensor.op = match op {
            "SILU" | "SIGMOID" => Op::Unary,
            op => Op::named(op),
        };
        self.descs.push(op);
        id
    }

    fn leaf(&mut self) -> TensorId {
        self.add(List::Leafs, "NONE", 1, &[])
    }

    fn node(&mut self, op: &'static str, sources: &[TensorId]) -> TensorId {
        self.add(List::Nodes, op, 1, sources)
    }

    fn nbytes(&self, tensor: TensorId) -> Bytes {
        self.sketch.drafts[tensor as usize].nbytes
    }

    fn kernels(&self, device: Device) -> Option<Kernels> {
        let (leafs, nodes) = (self.sketch.requests(List::Leafs), self.sketch.requests(List::Nodes));
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        Kernels::find(&self.sketch.graph(), requests, (0, device, 16), &|id| self.desc(id))
    }

    fn desc(&self, id: TensorId) -> Arc<str> {
        self.descs[id as usize].into()
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
        costs_at(&kernels, &self.sketch.graph(), &|id| self.nbytes(id), &address)
    }
}
