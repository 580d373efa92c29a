//! The tensors that an allocator retains: those registered for it, and those whose names the process has set.

use std::fmt;

use crate::ggml::live::operations::Operations;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::process::settings::{retain_changes, settings};
use crate::ggml::retention::{LiveRetention, Registrations};
use crate::graph::Op;

/// Why a call about a retained tensor has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRetained {
    /// The tensor that is to end the retention is computed by no operation.
    NoNode {
        /// Its name.
        tensor: String,
    },
    /// Only parts of the tensor are computed.
    Tiled {
        /// Its name.
        tensor: String,
    },
    /// The tensor to release is not registered.
    NotRegistered {
        /// Its name.
        tensor: String,
    },
}

impl fmt::Display for NotRetained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNode { tensor } => write!(
                f,
                "node {tensor:?} is computed by no operation, so it never runs: pass a node of the graph, or call \
                 lastuse_tensor_retain"
            ),
            Self::Tiled { tensor } => write!(
                f,
                "only tiles of {tensor:?} are computed since its graph was changed by lastuse_graph_tile: retain it before"
            ),
            Self::NotRegistered { tensor } => write!(
                f,
                "{tensor:?} is not retained by lastuse_tensor_retain on this allocator; \
                 names are released by lastuse_set(\"retain\", ...)"
            ),
        }
    }
}

/// The tensors that an allocator retains. Plans are remembered with the tensors that they retain, so no change drops
/// them.
#[derive(Debug)]
pub struct AllocatorRetention {
    live: LiveRetention,
    registrations: Registrations,
    /// [`retain_changes`] when the names were taken from the settings.
    changes: u64,
}

impl AllocatorRetention {
    /// Retains the tensors named in the settings of the process.
    pub fn new() -> Self {
        // Before the settings: a change in between is then followed by the next call.
        let changes = retain_changes();
        Self { live: LiveRetention::of_names(settings().retain), registrations: Registrations::none(), changes }
    }

    /// Returns the retained tensors.
    #[inline]
    pub fn current(&mut self) -> &LiveRetention {
        if retain_changes() != self.changes {
            self.follow();
        }
        &self.live
    }

    /// Returns a copy of the retained tensors.
    pub fn to_current(&self) -> LiveRetention {
        let mut live = self.live.clone();
        live.set_names(settings().retain);
        live
    }

    #[cold]
    fn follow(&mut self) {
        self.changes = retain_changes();
        self.live.set_names(settings().retain);
    }

    /// Retains a tensor in future plans, to the end of the graph.
    ///
    /// # Errors
    /// [`NotRetained::Tiled`] if no node computes it any more.
    pub fn retain(&mut self, tensor: TensorRef<'_>) -> Result<(), NotRetained> {
        self.register(tensor, None)
    }

    /// Retains a tensor in future plans, until `node` has run.
    ///
    /// # Errors
    /// [`NotRetained::NoNode`] if no operation computes `node`, [`NotRetained::Tiled`] if none computes the tensor.
    pub fn retain_until(
        &mut self,
        operations: &Operations,
        tensor: TensorRef<'_>,
        node: TensorRef<'_>,
    ) -> Result<(), NotRetained> {
        let is_marker = operations.op(node.op()) == Op::None;
        if is_marker && node.sources().next().is_none() {
            return Err(NotRetained::NoNode { tensor: node.name() });
        }
        self.register(tensor, Some(node))
    }

    fn register(&mut self, tensor: TensorRef<'_>, until: Option<TensorRef<'_>>) -> Result<(), NotRetained> {
        if tensor.is_replaced_by_tiles() {
            return Err(NotRetained::Tiled { tensor: tensor.name() });
        }
        self.live.register(tensor, until);
        self.registrations.add(tensor);
        Ok(())
    }

    /// Ends [`AllocatorRetention::retain`] and [`AllocatorRetention::retain_until`] for future plans.
    ///
    /// # Errors
    /// [`NotRetained::NotRegistered`] if the tensor is retained by neither.
    pub fn release(&mut self, tensor: TensorRef<'_>) -> Result<(), NotRetained> {
        let found = self.live.release(tensor);
        self.registrations.remove(tensor);
        found.then_some(()).ok_or_else(|| NotRetained::NotRegistered { tensor: tensor.name() })
    }
}
