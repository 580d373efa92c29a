//! Computes a graph node by node, under guard.

use std::ffi::c_int;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Violation;
use super::guard::Guard;
use super::mode::Verify;
use super::placed::Placed;
use super::watch::Watch;
use crate::ggml::STATUS_SUCCESS;
use crate::ggml::USAGE_COMPUTE;
use crate::ggml::bindings::{ggml_backend, ggml_cgraph};
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;

/// Why a graph was not computed to its end.
#[derive(Clone, Debug)]
pub enum NotComputed {
    /// This ggml lacks what it takes.
    Unsupported,
    /// The backend answered something else than success: ggml's status.
    Status(i32),
    /// Memory is not what it should be.
    Violation(Violation),
}

impl fmt::Display for NotComputed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => write!(f, "this ggml cannot compute a part of a graph"),
            Self::Status(status) => write!(f, "the backend answers with the status {status}"),
            Self::Violation(violation) => violation.fmt(f),
        }
    }
}

/// Runs a graph that has its memory in thought, and then on `backend`, one node after the other.
///
/// # Errors
/// [`NotComputed`] says how far it got.
///
/// # Safety
/// `backend`, `graph`, its tensors and their buffers are alive, and no other thread uses them.
pub unsafe fn compute_guarded(
    runtime: &'static Runtime,
    backend: *mut ggml_backend,
    graph: NonNull<ggml_cgraph>,
    mode: Verify,
) -> Result<(), NotComputed> {
    let functions = &runtime.functions;
    let (Some(compute), Some(part)) = (functions.ggml_backend_graph_compute, functions.ggml_graph_view) else {
        return Err(NotComputed::Unsupported);
    };
    // SAFETY: the caller's promise.
    let nodes = unsafe { GraphRef::new(graph) };
    let placed = Placed::read(runtime, nodes, |buffer| runtime.usage(buffer) == USAGE_COMPUTE);
    placed.verify(runtime).map_err(NotComputed::Violation)?;
    let watch = Arc::new(Watch::new(runtime, &placed));
    let mut guard = Guard::new(runtime, mode, None);
    for (index, &node) in nodes.nodes.iter().enumerate() {
        guard.before(node, Some(Arc::clone(&watch)));
        let first = c_int::try_from(index).map_err(|_| NotComputed::Unsupported)?;
        // SAFETY: a live graph with so many nodes; there is room for what is answered, whatever its size.
        let mut one = unsafe { part(graph.as_ptr(), first, first + 1) };
        // SAFETY: a live backend, and a part of a live graph.
        let status = unsafe { compute(backend, (&raw mut one).cast()) };
        if status != STATUS_SUCCESS {
            return Err(NotComputed::Status(status));
        }
        guard.after(node).map_err(NotComputed::Violation)?;
        guard.clear_after(node);
    }
    Ok(())
}
