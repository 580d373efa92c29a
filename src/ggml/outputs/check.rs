//! Checks of redirected results that need the whole graph.

use std::fmt;

use crate::graph::Effect;
use crate::graph::{Access, Accesses, Op, Region, Strides};
use crate::placement::{Bytes, Step};

use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::ids::Ids;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, MAX_SOURCES, TensorRef};
use crate::ggml::outputs::redirect::{ORDERED_OUTPUT_SLOT, OUTPUT_SLOT, redirected_to};

/// The rule that a redirected result breaks in a graph, with the names of the tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputError {
    /// Two nodes access the memory that a result was redirected to, one of them writes, and neither depends on the
    /// other.
    Unordered {
        /// The node that writes.
        writer: String,
        /// The node that reads or writes.
        other: String,
    },
    /// A view of the result was created before it was redirected, and so has another address.
    OldView {
        /// The view.
        view: String,
        /// The result.
        output: String,
    },
    /// An operation reads a result with gaps that it may not be able to read.
    Unreadable {
        /// The result of the operation.
        reader: String,
        /// The result.
        output: String,
    },
    /// A result with gaps was redirected to memory that is not of ggml's CPU backend.
    NotOnCpu {
        /// The result.
        output: String,
    },
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unordered { writer, other } => write!(
                f,
                "of two nodes that touch memory which a result was redirected to, one of them writing, one must depend \
                 on the other (see ggml_dependency), but neither {other} depends on {writer}, nor {writer} on {other}"
            ),
            Self::OldView { view, output } => write!(
                f,
                "views of a redirected result must be created after it was redirected, but {view} is an older view of \
                 {output}"
            ),
            Self::Unreadable { reader, output } => write!(
                f,
                "a result with gaps between its rows or elements is only read by operations that are known to do that, \
                 but {reader} reads {output} by another one; let it read ggml_cont of {output}, or a view created after \
                 {output} was redirected"
            ),
            Self::NotOnCpu { output } => write!(
                f,
                "a result with gaps between its rows can be written in memory of ggml's CPU backend only, but {output} \
                 lies elsewhere"
            ),
        }
    }
}

/// Checks that every redirected result of `graph` can be computed in its memory. `buffer` returns the buffer type
/// requested for a node, by position. In a graph without redirected results this reads each node once.
///
/// # Errors
/// [`OutputError`].
pub fn check_outputs(
    runtime: &'static Runtime,
    graph: GraphRef<'_>,
    buffer: impl Fn(usize) -> Option<BufferType>,
) -> Result<(), OutputError> {
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
    let unordered = AccessCollector { runtime, graph, roots }.accesses().unordered();
    let name = |step: Step| graph.nodes[step as usize].name();
    unordered.map_or(Ok(()), |pair| Err(OutputError::Unordered { writer: name(pair.writer), other: name(pair.other) }))
}

/// Whether kernels of other backends write results with gaps is unknown.
fn check_backend(
    runtime: &'static Runtime,
    node: TensorRef<'_>,
    root: TensorRef<'_>,
    buffer: Option<BufferType>,
) -> Result<(), OutputError> {
    let buffer_type = runtime.buffer_type_of(root).or(buffer.filter(|_| !root.has_memory()));
    let is_supported = runtime.is_contiguous(node) || buffer_type.is_none_or(BufferType::belongs_to_cpu);
    if is_supported { Ok(()) } else { Err(OutputError::NotOnCpu { output: node.name() }) }
}

fn check_views(node: TensorRef<'_>) -> Result<(), OutputError> {
    for view in node.sources().chain([node]) {
        let Some(root) = view.view_source() else { continue };
        if redirected_to(root).is_some() {
            return Err(OutputError::OldView { view: view.name(), output: root.name() });
        }
    }
    Ok(())
}

/// A reader may have been created before the result was redirected, when it was contiguous; ggml asserted that only
/// then.
fn check_readable(runtime: &'static Runtime, node: TensorRef<'_>) -> Result<(), OutputError> {
    if runtime.operations.op(node.op()).computes_nothing() {
        return Ok(());
    }
    let read = if node.view_source().is_some() { ORDERED_OUTPUT_SLOT } else { MAX_SOURCES };
    for (slot, source) in node.source_slots()[..read].iter().enumerate() {
        let Some(output) = source.filter(|&source| is_redirected(runtime, source)) else { continue };
        let layout = output.layout().to_layout();
        if !runtime.operations.op(node.op()).reads(slot).allows(&layout.packed(element_size(runtime, output)), &layout)
        {
            return Err(OutputError::Unreadable { reader: node.name(), output: output.name() });
        }
    }
    Ok(())
}

/// Excludes views with a source in the last slot for another reason, which no operation of ggml has: they write no
/// result.
fn is_redirected(runtime: &'static Runtime, tensor: TensorRef<'_>) -> bool {
    redirected_to(tensor).is_some() && runtime.operations.op(tensor.op()).writes() > Strides::OnlyItsOwn
}

/// The bytes of an element of a tensor that is neither empty nor quantized: its extent in bytes less all strides.
fn element_size(runtime: &'static Runtime, tensor: TensorRef<'_>) -> u64 {
    let strides =
        tensor.ne().into_iter().zip(tensor.nb()).map(|(extent, stride)| (extent.unsigned_abs() - 1) * stride as u64);
    runtime.nbytes(tensor) - strides.sum::<u64>()
}

/// The bytes of `tensor`, from the start of its root; `memory` is a number for the root.
pub fn range(runtime: &'static Runtime, tensor: TensorRef<'_>, memory: u32) -> Region {
    let start = tensor.view_source().map_or(0, |_| tensor.view_offset() as Bytes);
    Region { space: memory, start, end: start.saturating_add(runtime.nbytes(tensor)) }
}

struct AccessCollector<'g> {
    runtime: &'static Runtime,
    graph: GraphRef<'g>,
    /// The roots that results were redirected to.
    roots: Ids<'g>,
}

impl AccessCollector<'_> {
    fn accesses(&self) -> Accesses {
        let mut steps = Ids::with_capacity(self.graph.nodes.len());
        let mut accesses = Accesses::default();
        let mut before = None;
        for &node in self.graph.nodes {
            let effect = self.runtime.operations.op(node.op()).effect();
            // A scheduler lists a copy of a tensor of another backend right after a view of that tensor.
            let copied = before.filter(|&before| effect == Effect::Nothing && self.is_plain_view(before));
            let sources = node.sources().chain(copied).filter_map(|source| steps.known().id(source));
            let step = accesses.push_node(sources.collect::<Vec<Step>>());
            steps.id(node);
            self.add_accesses(&mut accesses, step, node, effect);
            before = Some(node);
        }
        accesses
    }

    fn is_plain_view(&self, tensor: TensorRef<'_>) -> bool {
        self.runtime.operations.op(tensor.op()).computes_nothing() && tensor.view_source().is_some()
    }

    fn add_accesses(&self, accesses: &mut Accesses, step: Step, node: TensorRef<'_>, effect: Effect) {
        if matches!(effect, Effect::Nothing | Effect::View) {
            return;
        }
        let dst = redirected_to(node);
        for (slot, source) in node.source_slots().iter().enumerate() {
            if let Some(source) = source.filter(|_| dst.is_none() || slot != OUTPUT_SLOT) {
                let access = if effect.writes_source(slot) { Access::Writes } else { Access::Reads };
                self.add_access(accesses, step, source, access);
            }
        }
        let by_result = if dst.is_some() { Access::Redirected } else { Access::Writes };
        self.add_access(accesses, step, node, by_result);
    }

    fn add_access(&self, accesses: &mut Accesses, step: Step, tensor: TensorRef<'_>, access: Access) {
        let root = tensor.view_source().unwrap_or(tensor);
        if let Some(memory) = self.roots.known().id(root) {
            accesses.touch(step, range(self.runtime, tensor, memory), access);
        }
    }
}

/// The strides that the operation of `tensor` can write. A MUL with an RMS_NORM may be fused with it, into a kernel
/// that writes whole rows.
pub fn writes(runtime: &'static Runtime, tensor: TensorRef<'_>) -> Strides {
    let writes = runtime.operations.op(tensor.op()).writes();
    let is_fused = runtime.operations.op(tensor.op()) == Op::Mul
        && tensor.sources().any(|source| runtime.operations.op(source.op()) == Op::RmsNorm);
    if is_fused { writes.min(Strides::Rows) } else { writes }
}
