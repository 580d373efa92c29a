//! From a live graph to plain data with names: what a capture holds, and what people are told of a graph.

use crate::graph::snapshot::{BufferInfo, Snapshot, TensorInfo};
use crate::graph::{Graph, Pool, PoolId, Requests, TensorId, sizes_by_ggml};
use crate::placement::Bytes;

use super::buffers::BufferType;
use super::read::{Reading, Requested};
use super::runtime::{Runtime, VERSION};
use super::tensor::TensorRef;

/// A graph as an allocator sees it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a, 'g> {
    /// The ggml that it belongs to.
    pub runtime: &'a Runtime,
    /// By pool.
    pub types: &'a [BufferType],
    /// By pool: what is allowed in it.
    pub pools: &'a [Pool],
    /// The pools that are asked for, with one for every leaf and node.
    pub requested: &'a Requested,
    /// The graph.
    pub reading: &'a Reading<'g>,
}

impl Subject<'_, '_> {
    /// The graph with its names and all sizes, planned as [`Snapshot::plan_as_recorded`] does it.
    pub fn snapshot(&self) -> Snapshot {
        let pool_of = pools_of_all(&self.reading.graph, self.requested);
        let tensors = (0..).zip(&self.reading.tensors).zip(pool_of);
        let mut snapshot = Snapshot {
            label: format!("written by lastuse {VERSION}, ggml {}", self.runtime.version()),
            buffers: self.types.iter().zip(self.pools).map(|(&buffer_type, pool)| buffer(buffer_type, pool)).collect(),
            graph: self.reading.graph.clone(),
            tensors: tensors.map(|((id, &tensor), pool)| self.tensor(id, tensor, pool)).collect(),
        };
        snapshot.add_ggml_alloc_sizes();
        snapshot
    }

    /// By pool: the bytes that ggml's own allocator would take. `None` where they add up to more than can be addressed.
    pub fn sizes_by_ggml(&self) -> Option<Vec<Bytes>> {
        let Reading { graph, tensors, .. } = self.reading;
        let requests = Requests { leafs: &self.requested.leafs, nodes: &self.requested.nodes };
        let mut sizes = |id: TensorId, pool: PoolId| self.types[pool as usize].alloc_size(tensors[id as usize]);
        sizes_by_ggml(graph, self.pools, requests, &mut sizes)
    }

    fn tensor(&self, id: TensorId, tensor: TensorRef<'_>, pool: PoolId) -> TensorInfo {
        let nbytes = self.runtime.nbytes(tensor);
        // What is never planned is not asked for: with some backends another machine would have to answer.
        let is_owned = self.reading.graph.tensor(id).is_owned();
        let size_in = |pool: PoolId| if is_owned { self.types[pool as usize].alloc_size(tensor) } else { nbytes };
        let size = size_in(pool);
        let others = (0..).take(self.types.len()).filter(|&other| is_owned && other != pool);
        TensorInfo {
            id: u64::from(id),
            name: tensor.name(),
            op: self.runtime.operations.name(tensor.op()).to_string_lossy().into_owned(),
            desc: self.runtime.description(tensor),
            element: self.runtime.element_name(tensor),
            nbytes,
            size,
            pool,
            elsewhere: others.map(|other| (other, size_in(other))).filter(|&(_, other)| other != size).collect(),
        }
    }
}

fn buffer(buffer_type: BufferType, pool: &Pool) -> BufferInfo {
    BufferInfo {
        name: buffer_type.name(),
        alignment: pool.alignment,
        max_size: pool.max_chunk,
        ggml_alloc_size: None,
        rules: Some(pool.rules),
        effort: Some(pool.effort),
    }
}

/// The pool asked for by tensor: for what is in no list that of its first reader, which is where it goes.
fn pools_of_all(graph: &Graph, requested: &Requested) -> Vec<PoolId> {
    let mut pools = vec![None; graph.tensors().len()];
    let leafs = graph.leafs().iter().zip(&requested.leafs);
    let nodes = graph.nodes().iter().zip(&requested.nodes);
    for (&id, &pool) in leafs.chain(nodes.clone()) {
        pools[id as usize].get_or_insert(pool);
    }
    for (&node, &pool) in nodes {
        graph.sources(node).iter().for_each(|&source| _ = pools[source as usize].get_or_insert(pool));
    }
    pools.into_iter().map(Option::unwrap_or_default).collect()
}
