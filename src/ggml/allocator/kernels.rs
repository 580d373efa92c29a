//! The placement that costs a device least, among those of the same size.

use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::read::ReadGraph;
use crate::graph::kernels::{Kernels, TensorFacts, prefer_cheaper};
use crate::graph::{BufferIndex, Device, GraphPlan, Layout, Requests, TensorId};
use crate::placement::Bytes;

use super::types::BufferTypes;

/// Replaces the placements in buffers of devices by others of the same size that cost them less, where some are found.
pub fn prefer_cheaper_on_devices(
    types: &BufferTypes,
    reading: &ReadGraph<'_>,
    requests: Requests<'_>,
    plan: &mut GraphPlan,
) {
    let mut facts = None;
    for (buffer, buffer_type) in (0..).zip(types.types()) {
        let device = buffer_type.device();
        if Kernels::matter_on(device) {
            let facts = facts.get_or_insert_with(|| LiveFacts::of(buffer_type.runtime(), &reading.tensors));
            prefer_in(buffer, device, reading, requests, facts, plan);
        }
    }
}

fn prefer_in(
    buffer: BufferIndex,
    device: Device,
    reading: &ReadGraph<'_>,
    requests: Requests<'_>,
    facts: &LiveFacts,
    plan: &mut GraphPlan,
) {
    let alignment = plan.problems[buffer as usize].alignment();
    if let Some(kernels) = Kernels::find(&reading.graph, requests, (buffer, device, alignment), facts) {
        prefer_cheaper(plan, &reading.graph, buffer, &kernels, facts);
    }
}

/// Facts about live tensors, by id.
struct LiveFacts(Vec<LiveTensor>);

struct LiveTensor {
    op: &'static str,
    desc: String,
    layout: Layout,
    nbytes: Bytes,
}

impl LiveFacts {
    fn of(runtime: &'static Runtime, tensors: &[TensorRef<'_>]) -> Self {
        let fact = |&tensor: &TensorRef<'_>| LiveTensor {
            op: runtime.operations.name(tensor.op()).to_str().unwrap_or_default(),
            desc: runtime.description(tensor),
            layout: tensor.layout().to_layout(),
            nbytes: runtime.nbytes(tensor),
        };
        Self(tensors.iter().map(fact).collect())
    }
}

impl TensorFacts for LiveFacts {
    fn op(&self, tensor: TensorId) -> &str {
        self.0[tensor as usize].op
    }

    fn desc(&self, tensor: TensorId) -> &str {
        &self.0[tensor as usize].desc
    }

    fn layout(&self, tensor: TensorId) -> Layout {
        self.0[tensor as usize].layout
    }

    fn nbytes(&self, tensor: TensorId) -> Bytes {
        self.0[tensor as usize].nbytes
    }
}
