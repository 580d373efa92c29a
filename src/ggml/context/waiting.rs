//! Tensors that a graph reads and that are to get their memory from their context, not from the plan.

use std::ops::Range;
use std::sync::Arc;

use super::live::LiveContext;
use super::realize::is_waiting_root;
use super::registry::{are_some_growing, growing, growing_at};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::refusal::Refusal;

/// The live contexts that give their tensors memory in a buffer type, as they are at one moment.
#[derive(Debug)]
pub struct GrowingContexts {
    /// The addresses of each, in order.
    contexts: Vec<Range<usize>>,
    /// From the first address of the first to the last of the last.
    all: Range<usize>,
}

impl GrowingContexts {
    /// Those that there are; mostly none, which costs nothing.
    pub fn now() -> Self {
        let contexts = growing();
        let start = contexts.first().map_or(0, |first| first.start);
        let end = contexts.last().map_or(0, |last| last.end);
        Self { contexts, all: start..end }
    }

    /// Are there any?
    pub fn are_some(&self) -> bool {
        !self.contexts.is_empty()
    }

    /// Is it a tensor without memory that will get some from its context?
    pub fn will_give(&self, tensor: TensorRef<'_>) -> bool {
        let address = tensor.as_ptr().addr();
        self.all.contains(&address) && self.hold(address) && is_waiting_root(tensor)
    }

    fn hold(&self, address: usize) -> bool {
        let next = self.contexts.partition_point(|context| context.start <= address);
        next.checked_sub(1).is_some_and(|at| self.contexts[at].contains(&address))
    }
}

/// What a graph reads of such contexts, as far as it waits for memory. Contexts that it does not read are not touched:
/// another thread may fill them.
#[derive(Debug, Default)]
pub struct Waiting<'g> {
    /// Each once.
    contexts: Vec<Arc<LiveContext>>,
    /// Leafs and nodes: their positions among both.
    listed: Vec<(usize, TensorRef<'g>, BufferType)>,
}

impl<'g> Waiting<'g> {
    /// Can there be any? When not, a graph need not be looked at.
    pub fn is_possible() -> bool {
        are_some_growing()
    }

    /// Those of the lists of `graph`; the tensors themselves are not looked at unless they are such.
    pub fn among_listed(graph: GraphRef<'g>) -> Self {
        let mut waiting = Self::default();
        let growing = GrowingContexts::now();
        if !growing.contexts.is_empty() {
            for (position, &tensor) in graph.leafs.iter().chain(graph.nodes).enumerate() {
                waiting.add(&growing, tensor, Some(position));
            }
        }
        waiting
    }

    /// The same, and what is in no list but is read by one that is.
    pub fn in_graph(graph: GraphRef<'g>) -> Self {
        let mut waiting = Self::among_listed(graph);
        let growing = GrowingContexts::now();
        if !growing.contexts.is_empty() {
            for &tensor in graph.leafs.iter().chain(graph.nodes) {
                let read = tensor.sources().chain(tensor.view_source());
                read.for_each(|read| waiting.add(&growing, read, None));
            }
        }
        waiting
    }

    fn add(&mut self, growing: &GrowingContexts, tensor: TensorRef<'g>, position: Option<usize>) {
        let context = growing.will_give(tensor).then(|| growing_at(tensor.as_ptr().addr())).flatten();
        let Some(context) = context else { return };
        if let (Some(position), Some(buffer_type)) = (position, context.buffer_type()) {
            self.listed.push((position, tensor, buffer_type));
        }
        if !self.contexts.iter().any(|known| Arc::ptr_eq(known, &context)) {
            self.contexts.push(context);
        }
    }

    /// Is there nothing that waits?
    pub fn is_empty(&self) -> bool {
        self.contexts.is_empty()
    }

    /// Is every leaf and node expected, by its position among both, where its context will put it?
    ///
    /// # Errors
    /// [`Refusal::NotRealized`] with the first that is not.
    pub fn is_expected(&self, expected: impl Fn(usize) -> BufferType) -> Result<(), Refusal> {
        match self.listed.iter().find(|&&(position, _, buffer_type)| expected(position) != buffer_type) {
            Some(&(_, tensor, buffer_type)) => {
                Err(Refusal::NotRealized { tensor: tensor.name(), buffer: buffer_type.name() })
            }
            None => Ok(()),
        }
    }

    /// Gives memory to all tensors of these contexts.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] or [`Refusal::InitFailed`].
    pub fn realize(&self) -> Result<(), Refusal> {
        self.contexts.iter().try_for_each(|context| context.realize())
    }
}
