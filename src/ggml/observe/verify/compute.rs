//! Computes a graph node by node with a memory guard.

use std::ffi::c_int;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Violation;
use super::memory_guard::MemoryGuard;
use super::placed_graph::PlacedGraph;
use super::places::check_places;
use super::watched_graph::WatchedGraph;
use crate::ggml::STATUS_SUCCESS;
use crate::ggml::USAGE_COMPUTE;
use crate::ggml::bindings::{ggml_backend, ggml_cgraph};
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::retention::LiveRetention;
use crate::settings::Verify;

/// Why a graph was not computed to its end.
#[derive(Clone, Debug)]
pub enum NotComputed {
    /// This ggml has no functions to compute a part of a graph.
    Unsupported,
    /// The backend returned this status of ggml, not success.
    Status(i32),
    /// The addresses are wrong, or an operation wrote outside of its result.
    Violation(Violation),
}

impl fmt::Display for NotComputed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => write!(f, "this ggml cannot compute a part of a graph"),
            Self::Status(status) => write!(f, "the backend returned status {status}"),
            Self::Violation(violation) => violation.fmt(f),
        }
    }
}

/// Simulates a graph at its addresses, then computes it on `backend`, one node after the other. Free memory is poisoned,
/// except where `retention` retains tensors.
///
/// # Errors
/// [`NotComputed`]; nodes before the defect were computed.
///
/// # Safety
/// `backend`, `graph`, its tensors and their buffers are live, and no other thread uses them.
pub unsafe fn compute_guarded(
    runtime: &'static Runtime,
    backend: *mut ggml_backend,
    graph: NonNull<ggml_cgraph>,
    mode: Verify,
    retention: &LiveRetention,
) -> Result<(), NotComputed> {
    let functions = &runtime.functions;
    let (Some(compute), Some(part)) = (functions.ggml_backend_graph_compute, functions.ggml_graph_view) else {
        return Err(NotComputed::Unsupported);
    };
    // SAFETY: a live graph that no other thread uses, as the caller guarantees.
    let nodes = unsafe { GraphRef::new(graph) };
    check_places(nodes).map_err(NotComputed::Violation)?;
    let mut placed = PlacedGraph::read(runtime, nodes, |buffer| runtime.usage(buffer) == USAGE_COMPUTE);
    placed.verify(runtime).map_err(NotComputed::Violation)?;
    // Another allocator may have planned the graph, so this is not verified.
    retention.retain_in(&mut placed.graph, nodes);
    let watch = Arc::new(WatchedGraph::new(runtime, &placed));
    let mut guard = MemoryGuard::new(runtime, mode, None);
    for (index, &node) in nodes.nodes.iter().enumerate() {
        guard.before(node, Some(Arc::clone(&watch)));
        let first = c_int::try_from(index).map_err(|_| NotComputed::Unsupported)?;
        // SAFETY: a live graph with more than `index` nodes; the struct returned fits, whatever its size.
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
