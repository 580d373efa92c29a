//! Computes large intermediates of a live graph in parts.
//!
//! - [`subject`]: what the pass knows of a live graph
//! - [`rewriter`]: changes a live graph to the one that was found

pub mod rewriter;
pub mod subject;

use std::fmt;
use std::ptr::NonNull;

use crate::graph::Requests;
use crate::graph::split::{NotSplit, SplitLimits, Splitting, split};
use crate::placement::Bytes;

use crate::ggml::bindings::{ggml_cgraph, ggml_context};
use crate::ggml::extensions::compute_buffer::ComputeBuffer;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::read::requested::Requested;
use crate::ggml::read::{ReadGraph, read};
use rewriter::{bytes_needed, nodes_needed, rewrite};
use subject::LiveSubject;

/// What a live graph is cut for.
#[derive(Clone, Copy, Debug)]
pub struct SplitRequest<'r, 'g> {
    /// The buffer type of the future compute buffer, if known.
    pub buffer_type: Option<BufferType>,
    /// The budget, the threads and the work limit.
    pub limits: SplitLimits,
    /// Tensors that must stay as they are.
    pub retained: &'r [TensorRef<'g>],
}

/// Why a live graph is not cut. It is then unchanged.
#[derive(Debug)]
pub enum NotCut {
    /// The graph cannot be cut.
    Graph(NotSplit),
    /// A tensor to retain is not in the graph.
    NotInGraph(String),
    /// No graph was found that fits the budget; the smallest.
    OverBudget { budget: Bytes, smallest: Box<Splitting> },
    /// The graph has no room for the parts.
    GraphIsFull { capacity: usize, needed: usize },
    /// The context has no room for the parts.
    ContextIsFull { left: usize, needed: usize },
}

impl fmt::Display for NotCut {
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
                 budget, retain less, or ask for fewer threads",
                smallest.after
            ),
            Self::GraphIsFull { capacity, needed } => write!(
                f,
                "the graph has room for {capacity} nodes, and {needed} are needed: create it with ggml_new_graph_custom \
                 and at least that size"
            ),
            Self::ContextIsFull { left, needed } => write!(
                f,
                "the context has {left} bytes left, and {needed} are needed for the parts: create it with as many bytes \
                 more"
            ),
        }
    }
}

impl From<NotSplit> for NotCut {
    fn from(why: NotSplit) -> Self {
        Self::Graph(why)
    }
}

/// Searches for what to compute in parts, and changes the graph: its list of nodes, and the tensors whose parts are
/// computed, which become views. New tensors are in `context`. Calls `note` with each tensor of the program that is
/// computed in parts.
///
/// # Errors
/// [`NotCut`]; then nothing has changed.
///
/// # Safety
/// `context` and `graph` are live, and no other thread uses them or the graph's tensors. No [`GraphRef`] of the graph
/// is used afterwards.
pub unsafe fn split_graph(
    runtime: &'static Runtime,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    request: SplitRequest<'_, '_>,
    progress: &mut dyn FnMut(f64) -> bool,
    note: &mut dyn FnMut(TensorRef<'_>, u32),
) -> Result<Splitting, NotCut> {
    // SAFETY: a live graph of this thread, as the caller guarantees.
    let live = unsafe { GraphRef::new(graph) };
    let types = ComputeBuffer::new(runtime, request.buffer_type).types();
    let reading = read(runtime, &types, live, &Requested::default());
    let found = search(runtime, &reading, live, request, progress)?;
    if found.after > request.limits.budget {
        return Err(NotCut::OverBudget { budget: request.limits.budget, smallest: Box::new(found) });
    }
    if found.splits.is_empty() {
        return Ok(found);
    }
    // SAFETY: a live graph and context of this thread, as the caller guarantees.
    unsafe { expect_room(runtime, context, graph, &found) }?;
    // SAFETY: there is room, which was checked; the caller's promise.
    unsafe { rewrite(runtime, context, graph, &found, &reading.tensors) };
    for split in &found.splits {
        note(reading.tensors[split.tensor as usize], split.parts);
    }
    Ok(found)
}

fn search(
    runtime: &'static Runtime,
    reading: &ReadGraph<'_>,
    live: GraphRef<'_>,
    request: SplitRequest<'_, '_>,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<Splitting, NotCut> {
    let mut known = LiveSubject::of(runtime, reading);
    for tensor in request.retained {
        let id = (0..).zip(&reading.tensors).find(|(_, other)| *other == tensor);
        known.keep(id.ok_or_else(|| NotCut::NotInGraph(tensor.name()))?.0);
    }
    let (leafs, nodes) = (vec![0; live.leafs.len()], vec![0; live.nodes.len()]);
    let requests = Requests { leafs: &leafs, nodes: &nodes };
    let buffer = ComputeBuffer::new(runtime, request.buffer_type);
    let mut sizes = buffer.sizes(&reading.tensors);
    Ok(split(known.subject(), &[buffer.spec()], requests, &mut sizes, request.limits, progress)?)
}

/// Checks that the graph has room for the nodes, and the context for the new tensors.
///
/// # Safety
/// `context` and `graph` are live, and no other thread uses them.
unsafe fn expect_room(
    runtime: &Runtime,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    found: &Splitting,
) -> Result<(), NotCut> {
    let needed = nodes_needed(found);
    // SAFETY: a live graph, as the caller guarantees.
    let capacity = unsafe { GraphRef::capacity(graph) };
    if needed > capacity {
        return Err(NotCut::GraphIsFull { capacity, needed });
    }
    // SAFETY: a live context, as the caller guarantees.
    let size = unsafe { (runtime.functions.ggml_get_mem_size)(context.as_ptr()) };
    // SAFETY: as above.
    let used = unsafe { (runtime.functions.ggml_used_mem)(context.as_ptr()) };
    let (left, needed) = (size.saturating_sub(used), bytes_needed(runtime, found));
    if needed > left { Err(NotCut::ContextIsFull { left, needed }) } else { Ok(()) }
}
