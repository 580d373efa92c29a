//! Which backends of a scheduler compute the nodes of a graph: what is added is computed where the whole would be.

use std::collections::HashMap;

use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::read::Requested;
use crate::graph::BufferIndex;
use crate::graph::tiling::TileKernels;
use crate::placement::Bytes;

/// A backend of a scheduler.
#[derive(Clone, Debug)]
pub struct Backend {
    /// The name that ggml's messages use.
    pub name: String,
    /// The buffer of what it computes, as a position in the buffer types of the planner.
    pub buffer: BufferIndex,
    /// The kernels that compute tiles with the bits of the whole, if there are such.
    pub tiles: Option<TileKernels>,
    /// Bytes of the copies that the scheduler makes for it of what others compute.
    pub copies: Bytes,
}

/// The backends of the leafs and nodes of a graph.
#[derive(Debug)]
pub struct Assignment {
    /// In the order of the scheduler.
    pub backends: Vec<Backend>,
    /// By address of a tensor: a position in the backends.
    of_tensor: HashMap<usize, usize>,
}

impl Assignment {
    /// Starts with these backends, and no tensor.
    pub fn new(backends: Vec<Backend>) -> Self {
        Self { backends, of_tensor: HashMap::new() }
    }

    /// Notes the backend of a tensor.
    pub fn assign(&mut self, tensor: TensorRef<'_>, backend: usize) {
        self.of_tensor.insert(tensor.address(), backend);
    }

    /// Notes the backend of a tensor that was added for `given`: that of the memory for a view, or else that of `given`.
    pub fn assign_as(&mut self, tensor: TensorRef<'_>, given: TensorRef<'_>) {
        let root = tensor.view_source().and_then(|root| self.of(root));
        if let Some(backend) = root.or_else(|| self.of(given)) {
            self.assign(tensor, backend);
        }
    }

    /// Returns the position of the backend that computes a tensor, or has it.
    pub fn of(&self, tensor: TensorRef<'_>) -> Option<usize> {
        self.of_tensor.get(&tensor.address()).copied()
    }

    /// Returns the buffers that the scheduler will request for the leafs and nodes.
    pub fn requested(&self, graph: GraphRef<'_>) -> Requested {
        let buffer = |tensor: &TensorRef<'_>| self.of(*tensor).map_or(0, |backend| self.backends[backend].buffer);
        Requested { leafs: graph.leafs.iter().map(buffer).collect(), nodes: graph.nodes.iter().map(buffer).collect() }
    }

    /// Returns `true` if a tensor may be computed in tiles in this buffer.
    pub fn may_be_tiled(&self, tensor: TensorRef<'_>, buffer: BufferIndex) -> bool {
        self.of(tensor).is_some_and(|backend| {
            let Backend { buffer: own, tiles, .. } = &self.backends[backend];
            *own == buffer && tiles.is_some()
        })
    }

    /// Returns `true` if a tensor is in another buffer. A scheduler copies each view that is read from there, with the gaps between its
    /// rows.
    pub fn is_elsewhere(&self, tensor: TensorRef<'_>, buffer: BufferIndex) -> bool {
        let root = || tensor.view_source().and_then(|root| self.of(root));
        self.of(tensor).or_else(root).is_some_and(|backend| self.backends[backend].buffer != buffer)
    }

    /// Returns how often the backend changes from one node to the next: each time, a scheduler begins a split.
    pub fn changes(&self, nodes: &[TensorRef<'_>]) -> usize {
        let backends: Vec<usize> = nodes.iter().filter_map(|node| self.of(*node)).collect();
        backends.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    /// Returns the backends whose results are in a buffer.
    pub fn backends_in(&self, buffer: BufferIndex) -> impl Iterator<Item = &Backend> {
        self.backends.iter().filter(move |backend| backend.buffer == buffer)
    }
}
