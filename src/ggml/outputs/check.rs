//! What can be said of redirected results only when the whole graph is known.

use std::fmt;

use crate::graph::order::Effect;
use crate::graph::{Access, Accesses, Range, Strides};
use crate::placement::{Bytes, Step};

use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::ids::Ids;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, MAX_SOURCES, TensorRef};
use crate::ggml::outputs::redirect::{LISTED_SLOT, WANTED_SLOT, redirected_to};

/// Which rule a redirected result breaks in a graph, and the names of the tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrokenOutput {
    /// Two nodes touch the memory that a result was redirected to, and neither depends on the other.
    Unordered {
        /// Writes there.
        writer: String,
        /// Reads or writes there.
        other: String,
    },
    /// A view was made before the result was redirected: it is a view of memory that the result does not have.
    OldView {
        /// The view.
        view: String,
        /// The result.
        output: String,
    },
    /// An operation reads a result with gaps that it may not be able to read.
    Unreadable {
        /// Is computed by the operation.
        reader: String,
        /// The result.
        output: String,
    },
    /// A result with gaps is wanted in memory that is not of ggml's CPU backend.
    NotOnCpu {
        /// The result.
        output: String,
    },
}

impl fmt::Display for BrokenOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unordered { writer, other } => write!(
                f,
                "of two nodes that touch memory which a result was redirected to, one of them writing, one must depend \
                 on the other (see ggml_dependency), but neither {other} depends on {writer}, nor {writer} on {other}"
            ),
            Self::OldView { view, output } => write!(
                f,
                "views of a redirected result must be made after it was redirected, but {view} is an older view of \
                 {output}"
            ),
            Self::Unreadable { reader, output } => write!(
                f,
                "a result with gaps between its rows or elements is only read by operations that are known to do that, but \
                 {reader} reads {output} by another one; let it read ggml_cont of {output}, or a view made after {output} was \
                 redirected"
            ),
            Self::NotOnCpu { output } => write!(
                f,
                "a result with gaps between its rows can be written in memory of ggml's CPU backend only, but {output} \
                 lies elsewhere"
            ),
        }
    }
}

/// Searches for a redirected result that cannot be where it is wanted. `buffer` tells the buffer type that is wanted for a
/// node, by its position. A graph without redirected results costs one look at each node.
///
/// # Errors
/// [`BrokenOutput`].
pub fn check_outputs(
    runtime: &'static Runtime,
    graph: GraphRef<'_>,
    buffer: impl Fn(usize) -> Option<BufferType>,
) -> Result<(), BrokenOutput> {
    let mut roots = Ids::with_capacity(0);
    for (position, &node) in graph.nodes.iter().enumerate() {
        if let (Some(_), Some(root)) = (redirected_to(node), node.view_source()) {
            roots.id(root);
            check_backend(runtime, node, root, buffer(position))?;
        }
    }
    if roots.tensors().is_empty() {
        return Ok(());
    }
    for &node in graph.nodes {
        check_views(node)?;
        check_readable(runtime, node)?;
    }
    let unordered = Reader { runtime, graph, roots }.accesses().unordered();
    let name = |step: Step| graph.nodes[step as usize].name();
    unordered.map_or(Ok(()), |pair| Err(BrokenOutput::Unordered { writer: name(pair.writer), other: name(pair.other) }))
}

/// Kernels of other backends were not asked whether they write results with gaps.
fn check_backend(
    runtime: &'static Runtime,
    node: TensorRef<'_>,
    root: TensorRef<'_>,
    buffer: Option<BufferType>,
) -> Result<(), BrokenOutput> {
    let buffer_type = runtime.buffer_type_of(root).or(buffer.filter(|_| !root.has_memory()));
    let is_right = runtime.is_contiguous(node) || buffer_type.is_none_or(BufferType::belongs_to_cpu);
    if is_right { Ok(()) } else { Err(BrokenOutput::NotOnCpu { output: node.name() }) }
}

fn check_views(node: TensorRef<'_>) -> Result<(), BrokenOutput> {
    for view in node.sources().chain([node]) {
        let Some(root) = view.view_source() else { continue };
        if redirected_to(root).is_some() {
            return Err(BrokenOutput::OldView { view: view.name(), output: root.name() });
        }
    }
    Ok(())
}

/// A reader may have been made before the result was redirected, when it lay without gaps. ggml asked then, not later.
fn check_readable(runtime: &'static Runtime, node: TensorRef<'_>) -> Result<(), BrokenOutput> {
    if matches!(runtime.operations.effect(node.op()), Effect::Nothing | Effect::View) {
        return Ok(());
    }
    let read = if node.view_source().is_some() { LISTED_SLOT } else { MAX_SOURCES };
    for (slot, source) in node.source_slots()[..read].iter().enumerate() {
        let Some(output) = source.filter(|&source| is_redirected(runtime, source)) else { continue };
        let there = output.layout().to_layout();
        if !runtime.operations.reads(node.op(), slot).allows(&there.packed(element_size(runtime, output)), &there) {
            return Err(BrokenOutput::Unreadable { reader: node.name(), output: output.name() });
        }
    }
    Ok(())
}

/// A view that has a source in the last slot for another reason, as no operation of ggml has, writes no result of its own.
fn is_redirected(runtime: &'static Runtime, tensor: TensorRef<'_>) -> bool {
    redirected_to(tensor).is_some() && runtime.operations.writes(tensor.op()) > Strides::OnlyItsOwn
}

/// Bytes of an element of a tensor that has some, and is not quantized: what is left of all bytes without the steps.
fn element_size(runtime: &'static Runtime, tensor: TensorRef<'_>) -> u64 {
    let steps =
        tensor.ne().into_iter().zip(tensor.nb()).map(|(extent, stride)| (extent.unsigned_abs() - 1) * stride as u64);
    runtime.nbytes(tensor) - steps.sum::<u64>()
}

/// Bytes from the start of its root that `tensor` may touch; `memory` is a number for the root.
pub fn range(runtime: &'static Runtime, tensor: TensorRef<'_>, memory: u32) -> Range {
    let start = tensor.view_source().map_or(0, |_| tensor.view_offset() as Bytes);
    Range { memory, start, end: start.saturating_add(runtime.nbytes(tensor)) }
}

struct Reader<'g> {
    runtime: &'static Runtime,
    graph: GraphRef<'g>,
    /// The memory that results were redirected to.
    roots: Ids<'g>,
}

impl Reader<'_> {
    fn accesses(&self) -> Accesses {
        let mut steps = Ids::with_capacity(self.graph.nodes.len());
        let mut accesses = Accesses::default();
        let mut before = None;
        for &node in self.graph.nodes {
            let effect = self.runtime.operations.effect(node.op());
            // A scheduler lists a copy of a tensor of another backend behind a view of that tensor.
            let copied = before.filter(|&before| effect == Effect::Nothing && self.only_looks(before));
            let sources = node.sources().chain(copied).filter_map(|source| steps.known().id(source));
            let step = accesses.push_node(sources.collect::<Vec<Step>>());
            steps.id(node);
            self.add_touches(&mut accesses, step, node, effect);
            before = Some(node);
        }
        accesses
    }

    fn only_looks(&self, tensor: TensorRef<'_>) -> bool {
        let effect = self.runtime.operations.effect(tensor.op());
        matches!(effect, Effect::Nothing | Effect::View) && tensor.view_source().is_some()
    }

    fn add_touches(&self, accesses: &mut Accesses, step: Step, node: TensorRef<'_>, effect: Effect) {
        let by_sources = match effect {
            Effect::Nothing | Effect::View => return,
            Effect::Result => Access::Reads,
            Effect::Sources | Effect::Anything => Access::Writes,
        };
        let wanted = redirected_to(node);
        for (slot, source) in node.source_slots().iter().enumerate() {
            if let Some(source) = source.filter(|_| wanted.is_none() || slot != WANTED_SLOT) {
                self.add_touch(accesses, step, source, by_sources);
            }
        }
        let by_result = if wanted.is_some() { Access::Redirected } else { Access::Writes };
        self.add_touch(accesses, step, node, by_result);
    }

    fn add_touch(&self, accesses: &mut Accesses, step: Step, tensor: TensorRef<'_>, access: Access) {
        let root = tensor.view_source().unwrap_or(tensor);
        if let Some(memory) = self.roots.known().id(root) {
            accesses.touch(step, range(self.runtime, tensor, memory), access);
        }
    }
}

/// What `operation` of `tensor` can write where it is wanted to lie. A product of RMS_NORM may be computed together with it,
/// by a kernel that writes whole rows.
pub fn writes(runtime: &'static Runtime, tensor: TensorRef<'_>) -> Strides {
    let writes = runtime.operations.writes(tensor.op());
    let is_fused = runtime.operations.is_named(tensor.op(), c"MUL")
        && tensor.sources().any(|source| runtime.operations.is_named(source.op(), c"RMS_NORM"));
    if is_fused { writes.min(Strides::Rows) } else { writes }
}
