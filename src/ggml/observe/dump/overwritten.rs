//! Whether the values of a tensor are still in memory when its graph has run.

use std::ops::Range;

use super::selection::{List, Selected};
use crate::ggml::bindings::ggml_backend_buffer;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::graph::Flags;

/// The effect of later nodes on the values of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// This node writes into the tensor, as the graph asks for: it is a view of the same memory.
    InPlace(String),
    /// This node was computed in the memory of the tensor.
    Lost(String),
}

/// The memory that a node writes.
struct Written<'g> {
    step: usize,
    tensor: TensorRef<'g>,
    span: Span,
    /// Copies its sources, so that those inside of it keep their values.
    copies: bool,
}

#[derive(PartialEq, Eq)]
struct Span {
    buffer: *mut ggml_backend_buffer,
    bytes: Range<usize>,
}

impl Span {
    fn of(runtime: &Runtime, tensor: TensorRef<'_>) -> Self {
        let start = tensor.data().addr();
        let size = usize::try_from(runtime.nbytes(tensor)).unwrap_or(usize::MAX);
        Self { buffer: root(tensor).buffer(), bytes: start..start.saturating_add(size) }
    }

    /// Returns `true` if both share bytes. Addresses of different devices may be equal; 0 is that of no memory.
    fn overlaps(&self, other: &Self) -> bool {
        self.buffer == other.buffer
            && self.bytes.start != 0
            && self.bytes.start < other.bytes.end
            && other.bytes.start < self.bytes.end
    }
}

/// Returns what happened to each of `selected`: the last change counts, and a loss more than any.
pub fn changed_by(runtime: &Runtime, graph: GraphRef<'_>, selected: &[Selected<'_>]) -> Vec<Change> {
    let written = written_spans(runtime, graph);
    selected.iter().map(|one| change_of(runtime, &written, one)).collect()
}

fn written_spans<'g>(runtime: &Runtime, graph: GraphRef<'g>) -> Vec<Written<'g>> {
    let is_computed = |node: TensorRef<'_>| Flags(node.flags()).has(Flags::COMPUTE);
    let knows_flag = graph.nodes.iter().any(|node| is_computed(*node));
    let written = |(step, &tensor): (usize, &TensorRef<'g>)| {
        let op = runtime.operations.op(tensor.op());
        let (writes, copies) = (!op.computes_nothing(), op.copies().is_some());
        let is_run = !knows_flag || is_computed(tensor);
        (writes && is_run).then(|| Written { step, tensor, span: Span::of(runtime, tensor), copies })
    };
    graph.nodes.iter().enumerate().filter_map(written).collect()
}

fn change_of(runtime: &Runtime, written: &[Written<'_>], one: &Selected<'_>) -> Change {
    let span = Span::of(runtime, one.tensor);
    let first = match one.list {
        List::Nodes => written.partition_point(|node| node.step <= one.index),
        List::Leafs => 0,
    };
    let mut change = Change::None;
    for node in written[first..].iter().filter(|node| node.span.overlaps(&span)) {
        if root(node.tensor) == root(one.tensor) {
            change = Change::InPlace(runtime.describe(node.tensor));
        } else if !(node.copies && node.tensor.sources().any(|source| root(source) == root(one.tensor))) {
            return Change::Lost(runtime.describe(node.tensor));
        }
    }
    change
}

fn root(tensor: TensorRef<'_>) -> TensorRef<'_> {
    tensor.view_source().unwrap_or(tensor)
}
