//! Converts a graph that was read to a [`Snapshot`]: plain data with names, for captures and reports.

use crate::graph::snapshot::{BufferInfo, Snapshot, TensorInfo};
use crate::graph::{BufferIndex, BufferSpec, Graph, Requests, TensorId, ggml_alloc_sizes};
use crate::placement::Bytes;

use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::read::{ReadGraph, Requested};
use crate::ggml::version::VERSION;

/// A graph as an allocator receives it, of which a snapshot can be made.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotSource<'a, 'g> {
    /// The ggml that it belongs to.
    pub runtime: &'a Runtime,
    /// By buffer.
    pub types: &'a [BufferType],
    /// By buffer.
    pub buffers: &'a [BufferSpec],
    /// The requested buffers, with one for every leaf and node.
    pub requested: &'a Requested,
    /// The graph.
    pub reading: &'a ReadGraph<'g>,
}

impl SnapshotSource<'_, '_> {
    /// Returns the graph with its names and all sizes, planned as [`Snapshot::plan_as_recorded`] does it.
    pub fn snapshot(&self) -> Snapshot {
        let buffer_of = buffers_of_all(&self.reading.graph, self.requested);
        let tensors = (0..).zip(&self.reading.tensors).zip(buffer_of);
        let mut snapshot = Snapshot {
            label: format!("written by lastuse {VERSION}, ggml {}", self.runtime.version()),
            buffers: self
                .types
                .iter()
                .zip(self.buffers)
                .map(|(&buffer_type, buffer)| buffer_info(buffer_type, buffer))
                .collect(),
            graph: (*self.reading.graph).clone(),
            tensors: tensors.map(|((id, &tensor), buffer)| self.tensor(id, tensor, buffer)).collect(),
        };
        snapshot.add_ggml_alloc_sizes();
        snapshot
    }

    /// Returns, by buffer, the bytes that ggml's own allocator would take. `None` if they add up to more than can be
    /// addressed.
    pub fn ggml_alloc_sizes(&self) -> Option<Vec<Bytes>> {
        let ReadGraph { graph, tensors, .. } = self.reading;
        let requests = Requests { leafs: &self.requested.leafs, nodes: &self.requested.nodes };
        let mut sizes =
            |id: TensorId, buffer: BufferIndex| self.types[buffer as usize].alloc_size(tensors[id as usize]);
        ggml_alloc_sizes(graph, self.buffers, requests, &mut sizes)
    }

    fn tensor(&self, id: TensorId, tensor: TensorRef<'_>, buffer: BufferIndex) -> TensorInfo {
        let nbytes = self.runtime.nbytes(tensor);
        // The size of a tensor that is never planned is not requested: some backends request it from another machine.
        let is_owned = self.reading.graph.tensor(id).is_owned();
        let size_in =
            |buffer: BufferIndex| if is_owned { self.types[buffer as usize].alloc_size(tensor) } else { nbytes };
        let size = size_in(buffer);
        let others = (0..).take(self.types.len()).filter(|&other| is_owned && other != buffer);
        TensorInfo {
            id: u64::from(id),
            name: tensor.name(),
            op: self.runtime.operations.name(tensor.op()).to_string_lossy().into(),
            desc: self.runtime.description(tensor).into(),
            element: self.runtime.element_name(tensor).into(),
            nbytes,
            size,
            buffer,
            elsewhere: others.map(|other| (other, size_in(other))).filter(|&(_, other)| other != size).collect(),
        }
    }
}

fn buffer_info(buffer_type: BufferType, buffer: &BufferSpec) -> BufferInfo {
    BufferInfo {
        name: buffer_type.name(),
        alignment: buffer.alignment,
        max_size: buffer.max_chunk,
        ggml_alloc_size: None,
        rules: Some(buffer.rules),
        effort: Some(buffer.effort),
    }
}

/// Returns the buffer of each tensor: the requested one, or for unlisted tensors that of the first node that uses them,
/// where they are placed.
fn buffers_of_all(graph: &Graph, requested: &Requested) -> Vec<BufferIndex> {
    let mut buffers = vec![None; graph.tensors().len()];
    let leafs = graph.leafs().iter().zip(&requested.leafs);
    let nodes = graph.nodes().iter().zip(&requested.nodes);
    for (&id, &buffer) in leafs.chain(nodes.clone()) {
        buffers[id as usize].get_or_insert(buffer);
    }
    for (&node, &buffer) in nodes {
        graph.sources(node).iter().for_each(|&source| _ = buffers[source as usize].get_or_insert(buffer));
    }
    buffers.into_iter().map(Option::unwrap_or_default).collect()
}
