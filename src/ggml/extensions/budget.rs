//! What the passes that make a live graph fit a budget have in common: tensors to retain, room for the tensors that
//! they add, and why they leave a graph as it is.

use std::fmt;
use std::ptr::NonNull;

use crate::graph::TensorId;
use crate::placement::Bytes;

use crate::ggml::bindings::{ggml_cgraph, ggml_context};
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::live::visited::Visited;

/// The graph that such a pass finds.
pub trait Budgeted: fmt::Debug {
    /// Why a graph cannot be changed at all.
    type Refusal: fmt::Display + fmt::Debug;
    /// The kind of the new tensors.
    const NEW_TENSORS: &'static str;
    /// What helps besides a larger budget.
    const HELPS: &'static str;

    /// Returns the bytes of its plan.
    fn planned_bytes(&self) -> Bytes;
}

/// Why a live graph is not changed. It is then as before.
#[derive(Debug)]
pub enum NotFitted<F: Budgeted> {
    /// The graph cannot be changed.
    Graph(F::Refusal),
    /// A tensor to retain is not in the graph.
    NotInGraph(String),
    /// No graph was found that fits the budget; the smallest.
    OverBudget { budget: Bytes, smallest: Box<F> },
    /// The program has listed nodes itself: the first tensor that ggml has not visited.
    ListedByHand(String),
    /// The graph has no room for the new nodes.
    GraphIsFull { capacity: usize, needed: usize },
    /// The context has no room for the new tensors.
    ContextIsFull { left: usize, needed: usize },
}

impl<F: Budgeted> fmt::Display for NotFitted<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Graph(why) => write!(f, "{why}"),
            Self::NotInGraph(name) => {
                write!(
                    f,
                    "the tensor {name:?} is to be retained, but it is not in the graph: build it into the graph first"
                )
            }
            Self::OverBudget { budget, smallest } => write!(
                f,
                "no graph was found that fits the budget of {budget} bytes: the smallest needs {} bytes; raise the \
                 budget, {}",
                smallest.planned_bytes(),
                F::HELPS
            ),
            Self::ListedByHand(name) => write!(
                f,
                "ggml did not visit the tensor {name:?} when the graph was built, so it cannot add nodes: build the \
                 graph with ggml_build_forward_expand"
            ),
            Self::GraphIsFull { capacity, needed } => write!(
                f,
                "the graph has room for {capacity} nodes, and {needed} are needed: create it with ggml_new_graph_custom \
                 and at least that size"
            ),
            Self::ContextIsFull { left, needed } => write!(
                f,
                "the context has {left} bytes left, and {needed} are needed for the {}: create it with as many bytes \
                 more",
                F::NEW_TENSORS
            ),
        }
    }
}

/// Returns the result if it fits.
///
/// # Errors
/// [`NotFitted::OverBudget`].
pub fn within<F: Budgeted>(found: F, budget: Bytes) -> Result<F, NotFitted<F>> {
    if found.planned_bytes() <= budget {
        Ok(found)
    } else {
        Err(NotFitted::OverBudget { budget, smallest: Box::new(found) })
    }
}

/// Returns the ids of the tensors to retain; `tensors` are those of the graph, by id.
///
/// # Errors
/// [`NotFitted::NotInGraph`].
pub fn ids<F: Budgeted>(retained: &[TensorRef<'_>], tensors: &[TensorRef<'_>]) -> Result<Vec<TensorId>, NotFitted<F>> {
    let id = |tensor: &TensorRef<'_>| {
        let found = (0..).zip(tensors).find(|(_, other)| *other == tensor);
        found.map(|(id, _)| id).ok_or_else(|| NotFitted::NotInGraph(tensor.name()))
    };
    retained.iter().map(id).collect()
}

/// Checks that ggml can add nodes to the graph, that it has room for `nodes` in all, and the context for `tensors` new ones.
///
/// # Errors
/// [`NotFitted::ListedByHand`], [`NotFitted::GraphIsFull`], [`NotFitted::ContextIsFull`].
///
/// # Safety
/// `context` and `graph` are live, and no other thread uses them.
pub unsafe fn expect_room<F: Budgeted>(
    runtime: &Runtime,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    nodes: usize,
    tensors: usize,
) -> Result<(), NotFitted<F>> {
    // SAFETY: a live graph, as the caller guarantees.
    let live = unsafe { GraphRef::new(graph) };
    // SAFETY: a live graph of this ggml that no other thread uses, as the caller guarantees.
    if let Some(tensor) = unsafe { Visited::of(runtime, graph) }.first_missing(live) {
        return Err(NotFitted::ListedByHand(tensor.name()));
    }
    // SAFETY: a live graph, as the caller guarantees.
    let capacity = unsafe { GraphRef::capacity(graph) };
    if nodes > capacity {
        return Err(NotFitted::GraphIsFull { capacity, needed: nodes });
    }
    // SAFETY: a live context, as the caller guarantees.
    let size = unsafe { (runtime.functions.ggml_get_mem_size)(context.as_ptr()) };
    // SAFETY: as above.
    let used = unsafe { (runtime.functions.ggml_used_mem)(context.as_ptr()) };
    let (left, needed) = (size.saturating_sub(used), context_bytes(runtime, tensors));
    if needed > left { Err(NotFitted::ContextIsFull { left, needed }) } else { Ok(()) }
}

/// Returns the bytes that tensor structs take in a context, without their data.
pub fn context_bytes(runtime: &Runtime, tensors: usize) -> usize {
    // SAFETY: takes nothing.
    let each = unsafe { (runtime.functions.ggml_tensor_overhead)() };
    each.saturating_mul(tensors)
}
