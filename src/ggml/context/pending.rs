//! Pending tensors of a graph: tensors without memory that their contexts allocate, not the plan.

use std::ops::Range;
use std::sync::Arc;

use super::live_context::LiveContext;
use super::realize::is_pending;
use super::registry::{backed_at, backed_contexts, has_backed_contexts};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::refusal::Refusal;

/// The live contexts that allocate their tensors in a buffer type, at one moment.
#[derive(Debug)]
pub struct BackedContexts {
    /// The addresses of each, in order.
    contexts: Vec<Range<usize>>,
    /// From the first address of the first to the last address of the last.
    all: Range<usize>,
}

impl BackedContexts {
    /// Returns the contexts that are live now. Usually there are none, which costs nothing.
    pub fn current() -> Self {
        let contexts = backed_contexts();
        let start = contexts.first().map_or(0, |first| first.start);
        let end = contexts.last().map_or(0, |last| last.end);
        Self { contexts, all: start..end }
    }

    /// Returns `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.contexts.is_empty()
    }

    /// Returns `true` if `tensor` is pending in one of these contexts.
    pub fn will_allocate(&self, tensor: TensorRef<'_>) -> bool {
        let address = tensor.as_ptr().addr();
        self.all.contains(&address) && self.contain(address) && is_pending(tensor)
    }

    fn contain(&self, address: usize) -> bool {
        let next = self.contexts.partition_point(|context| context.start <= address);
        next.checked_sub(1).is_some_and(|at| self.contexts[at].contains(&address))
    }
}

/// The pending tensors that a graph reads, and their contexts. Contexts that the graph does not read are not accessed:
/// another thread may fill them.
#[derive(Debug, Default)]
pub struct PendingTensors<'g> {
    /// Each context once.
    contexts: Vec<Arc<LiveContext>>,
    /// Pending leafs and nodes: their positions among leafs and nodes together, and the buffer types of their contexts.
    listed: Vec<(usize, TensorRef<'g>, BufferType)>,
}

impl<'g> PendingTensors<'g> {
    /// Returns `false` if no graph can have pending tensors, so that none need be searched.
    pub fn is_possible() -> bool {
        has_backed_contexts()
    }

    /// Finds pending leafs and nodes of `graph`; other tensors are not accessed.
    pub fn among_listed(graph: GraphRef<'g>) -> Self {
        let mut pending = Self::default();
        let contexts = BackedContexts::current();
        if !contexts.is_empty() {
            for (position, &tensor) in graph.leafs.iter().chain(graph.nodes).enumerate() {
                pending.add(&contexts, tensor, Some(position));
            }
        }
        pending
    }

    /// Finds pending leafs and nodes of `graph`, and their pending sources and roots.
    pub fn in_graph(graph: GraphRef<'g>) -> Self {
        let mut pending = Self::among_listed(graph);
        let contexts = BackedContexts::current();
        if !contexts.is_empty() {
            for &tensor in graph.leafs.iter().chain(graph.nodes) {
                let read = tensor.sources().chain(tensor.view_source());
                read.for_each(|read| pending.add(&contexts, read, None));
            }
        }
        pending
    }

    fn add(&mut self, contexts: &BackedContexts, tensor: TensorRef<'g>, position: Option<usize>) {
        let context = contexts.will_allocate(tensor).then(|| backed_at(tensor.as_ptr().addr())).flatten();
        let Some(context) = context else { return };
        if let (Some(position), Some(buffer_type)) = (position, context.buffer_type()) {
            self.listed.push((position, tensor, buffer_type));
        }
        if !self.contexts.iter().any(|known| Arc::ptr_eq(known, &context)) {
            self.contexts.push(context);
        }
    }

    /// Returns `true` if no tensor is pending.
    pub fn is_empty(&self) -> bool {
        self.contexts.is_empty()
    }

    /// Checks that each pending leaf and node is requested in the buffer type of its context. `requested` returns the
    /// buffer type requested for a position among leafs and nodes together.
    ///
    /// # Errors
    /// [`Refusal::NotRealized`] with the first tensor for which it is another.
    pub fn expect_in(&self, requested: impl Fn(usize) -> BufferType) -> Result<(), Refusal> {
        match self.listed.iter().find(|&&(position, _, buffer_type)| requested(position) != buffer_type) {
            Some(&(_, tensor, buffer_type)) => {
                Err(Refusal::NotRealized { tensor: tensor.name(), buffer: buffer_type.name() })
            }
            None => Ok(()),
        }
    }

    /// Allocates all pending tensors of these contexts.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] or [`Refusal::InitFailed`].
    pub fn realize(&self) -> Result<(), Refusal> {
        self.contexts.iter().try_for_each(|context| context.realize())
    }
}
