//! A graph with the memory that its weights and caches are in.

use crate::graph::snapshot::Snapshot;
use crate::graph::{Graph, TensorId};

use super::backends::{Backend, BackendIndex, Backends, BufferTypeIndex, MAX_BACKENDS};
use super::offload_error::OffloadError;

/// The usage of a buffer as set in ggml. Only weights attract operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Usage {
    /// `GGML_BACKEND_BUFFER_USAGE_ANY` or `_COMPUTE`: caches, inputs of the program, results of earlier graphs.
    #[default]
    Other,
    /// `GGML_BACKEND_BUFFER_USAGE_WEIGHTS`.
    Weights,
}

/// The buffer that a tensor is in before the graph is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMemory {
    /// The type of the buffer.
    pub buffer_type: BufferTypeIndex,
    /// The usage of the buffer.
    pub usage: Usage,
}

/// A graph before scheduling, with the buffers of the tensors that have one.
#[derive(Clone, Copy, Debug)]
pub struct PlacedGraph<'a> {
    /// The graph; without copies and markers of a scheduler.
    pub snapshot: &'a Snapshot,
    /// By tensor, the buffer that it is in; `None` for tensors that the scheduler allocates, and for views that the
    /// program made while it built the graph: ggml gives those a buffer later. A tensor with memory is never planned.
    pub memory: &'a [Option<TensorMemory>],
    /// The backend that the program chose by `ggml_backend_sched_set_tensor_backend`.
    pub assigned: &'a [(TensorId, BackendIndex)],
}

impl<'a> PlacedGraph<'a> {
    /// Returns the graph.
    pub fn graph(&self) -> &'a Graph {
        &self.snapshot.graph
    }

    /// Returns ggml's name of the operation of a tensor.
    pub fn op(&self, tensor: TensorId) -> &'a str {
        &self.snapshot.tensors[tensor as usize].op
    }

    /// Returns the memory of the bytes of a tensor: that of its root, or its own.
    pub fn root_memory(&self, tensor: TensorId) -> Option<TensorMemory> {
        self.memory[self.graph().root(tensor) as usize]
    }

    /// Returns `true` if a tensor is in a buffer of weights itself; a view that was made later is not.
    pub fn is_weight(&self, tensor: TensorId) -> bool {
        self.memory[tensor as usize].is_some_and(|memory| memory.usage == Usage::Weights)
    }

    /// Returns the label of a tensor in messages.
    pub(super) fn label(&self, tensor: TensorId) -> String {
        self.snapshot.tensor(tensor)
    }

    /// Checks the lists of this struct against each other and against the backends.
    pub(super) fn check(&self, backends: &Backends) -> Result<(), OffloadError> {
        check_backends(backends)?;
        let tensors = self.graph().tensors();
        if self.memory.len() != tensors.len() {
            return Err(OffloadError::WrongLength { tensors: tensors.len(), memory: self.memory.len() });
        }
        let (types, count) = (backends.buffer_types.len(), backends.list.len());
        for (id, (tensor, memory)) in (0..).zip(tensors.iter().zip(self.memory)) {
            match memory {
                Some(TensorMemory { buffer_type, .. }) if *buffer_type as usize >= types => {
                    let (of, buffer_type) = (self.label(id), *buffer_type);
                    return Err(OffloadError::UnknownBufferType { of, buffer_type, count: types });
                }
                None if tensor.external && tensor.view.is_none() => {
                    return Err(OffloadError::UnknownMemory { tensor: self.label(id) });
                }
                _ => {}
            }
        }
        for &(tensor, backend) in self.assigned {
            if tensor as usize >= tensors.len() || backend as usize >= count {
                return Err(OffloadError::UnknownAssignment { tensor, backend, tensors: tensors.len(), count });
            }
        }
        Ok(())
    }
}

/// Checks the number of backends and their buffer types.
fn check_backends(backends: &Backends) -> Result<(), OffloadError> {
    match backends.list.len() {
        0 => return Err(OffloadError::NoBackends),
        count if count > MAX_BACKENDS => return Err(OffloadError::TooManyBackends { count }),
        _ => {}
    }
    let count = backends.buffer_types.len();
    match backends.list.iter().find(|backend| backend.buffer_type as usize >= count) {
        Some(Backend { name, buffer_type }) => {
            Err(OffloadError::UnknownBufferType { of: format!("backend {name:?}"), buffer_type: *buffer_type, count })
        }
        None => Ok(()),
    }
}
