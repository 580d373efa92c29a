//! Computes large intermediates of a live graph in parts.

use std::collections::HashMap;
use std::ffi::CString;
use std::fmt;
use std::ptr::NonNull;

use crate::graph::split::{Kind, NotSplit, Role, SplitLimits, Splitting, Subject, Window, split};
use crate::graph::{Effect, Requests, TensorId};
use crate::placement::Bytes;

use crate::ggml::bindings::{ggml_cgraph, ggml_context};
use crate::ggml::extensions::compute_buffer::ComputeBuffer;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, MAX_SOURCES, TensorRef};
use crate::ggml::live::tensor_mut::TensorMut;
use crate::ggml::live::use_counts::UseCounts;
use crate::ggml::read::memory::same_memory;
use crate::ggml::read::requested::Requested;
use crate::ggml::read::{ReadGraph, read};

/// Where IM2COL has the padding above its image among its parameters.
const PADDING_ABOVE: usize = 3;

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
    let new = found.draft.origins.iter().filter(|origin| !origin.role.is_given()).count();
    // SAFETY: a live graph and context of this thread, as the caller guarantees.
    unsafe { expect_room(runtime, context, graph, &found, new) }?;
    let leafs = live.leafs.len();
    let rewriter = Rewriter { runtime, context, found: &found, given: &reading.tensors };
    let tensors = rewriter.tensors();
    rewriter.connect(&tensors);
    // SAFETY: the graph has room, which was checked; `live` is not used any more.
    unsafe { rewriter.list(graph, &tensors, leafs) };
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
    let operations = &runtime.operations;
    let effects: Vec<Effect> = reading.tensors.iter().map(|tensor| operations.effect(tensor.op())).collect();
    let kinds: Vec<Kind> = reading.tensors.iter().map(|&tensor| kind(runtime, tensor)).collect();
    let nbytes: Vec<Bytes> = reading.tensors.iter().map(|&tensor| runtime.nbytes(tensor)).collect();
    let aliases = same_memory(runtime, reading);
    let unsliced: Vec<bool> = reading.tensors.iter().map(|&tensor| !may_be_sliced(runtime, tensor)).collect();
    let mut kept = vec![false; reading.tensors.len()];
    for tensor in request.retained {
        let id = reading.tensors.iter().position(|other| other == tensor);
        kept[id.ok_or_else(|| NotCut::NotInGraph(tensor.name()))?] = true;
    }
    // Kernels for weights in such memory are not known, nor are bits of their parts.
    for (id, kept) in (0..).zip(&mut kept) {
        let sources = reading.graph.sources(id);
        *kept |= sources.iter().any(|&source| unsliced[reading.graph.root(source) as usize]);
    }
    let subject = Subject {
        graph: &reading.graph,
        effects: &effects,
        same_memory: &aliases,
        kinds: &kinds,
        nbytes: &nbytes,
        kept: &kept,
        unsliced: &unsliced,
    };
    let (leafs, nodes) = (vec![0; live.leafs.len()], vec![0; live.nodes.len()]);
    let requests = Requests { leafs: &leafs, nodes: &nodes };
    let buffer = ComputeBuffer::new(runtime, request.buffer_type);
    let mut sizes = buffer.sizes(&reading.tensors);
    Ok(split(subject, &[buffer.spec()], requests, &mut sizes, request.limits, progress)?)
}

/// Returns how a live tensor can be cut, with what its parameters say.
fn kind(runtime: &Runtime, tensor: TensorRef<'_>) -> Kind {
    let parameters = tensor.parameters();
    match Kind::named(runtime.operations.name(tensor.op()).to_str().unwrap_or_default()) {
        // A hint at the values of the first source, which other kernels use.
        Kind::MatMul if parameters[1] != 0 => Kind::Other,
        Kind::SoftMax { .. } => Kind::SoftMax { same_slopes: f32::from_bits(parameters[1].cast_unsigned()) == 0.0 },
        Kind::Im2col(_) => {
            let [_, stride, _, padding, _, dilation, is_2d] = [0, 1, 2, 3, 4, 5, 6].map(|at| i64::from(parameters[at]));
            let kernel = tensor.source(0).map_or(0, |kernel| kernel.ne()[1]);
            let window = Window { stride, padding, dilation, kernel };
            if is_2d != 0 && kernel > 0 { Kind::Im2col(Some(window)) } else { Kind::Other }
        }
        kind => kind,
    }
}

/// Returns `true` unless the tensor is in memory whose layout only its backend knows, such as that of repacked weights.
fn may_be_sliced(runtime: &Runtime, tensor: TensorRef<'_>) -> bool {
    tensor.buffer_ref().is_none_or(|buffer| runtime.is_host(buffer))
}

/// Checks that the graph has room for the nodes, and the context for `new` tensors.
///
/// # Safety
/// `context` and `graph` are live, and no other thread uses them.
unsafe fn expect_room(
    runtime: &Runtime,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    found: &Splitting,
    new: usize,
) -> Result<(), NotCut> {
    let nodes = found.draft.graph.nodes().len();
    let memories = found.draft.origins.iter().filter(|origin| origin.role == Role::Memory).count();
    // While they are added, what the parts write is among the leafs; all that was ever in the graph stays in its hash set,
    // which has room for twice the nodes.
    let listed = (found.nodes_before + found.draft.graph.leafs().len() + new).div_ceil(2);
    let needed = nodes.max(found.draft.graph.leafs().len() + memories + 1).max(listed + 1);
    // SAFETY: a live graph, as the caller guarantees.
    let capacity = unsafe { GraphRef::capacity(graph) };
    if needed > capacity {
        return Err(NotCut::GraphIsFull { capacity, needed });
    }
    // SAFETY: a live context, as the caller guarantees.
    let size = unsafe { (runtime.functions.ggml_get_mem_size)(context.as_ptr()) };
    // SAFETY: as above.
    let used = unsafe { (runtime.functions.ggml_used_mem)(context.as_ptr()) };
    // SAFETY: takes nothing.
    let each = unsafe { (runtime.functions.ggml_tensor_overhead)() };
    let (left, needed) = (size.saturating_sub(used), each.saturating_mul(new));
    if needed > left { Err(NotCut::ContextIsFull { left, needed }) } else { Ok(()) }
}

/// Makes a live graph that of a [`Splitting`].
struct Rewriter<'r, 'g> {
    runtime: &'static Runtime,
    context: NonNull<ggml_context>,
    found: &'r Splitting,
    /// By id in the given graph.
    given: &'r [TensorRef<'g>],
}

impl<'g> Rewriter<'_, 'g> {
    /// Returns the live tensors of the new graph by id; those that are new are without sources and memory.
    fn tensors(&self) -> Vec<TensorRef<'g>> {
        let ids = 0..TensorId::try_from(self.found.draft.origins.len()).expect("fewer than 2^32 tensors");
        ids.map(|id| {
            let origin = &self.found.draft.origins[id as usize];
            let given = self.given[origin.tensor as usize];
            if origin.role.is_given() { given } else { self.add(id, given) }
        })
        .collect()
    }

    /// Adds a tensor with the type of `given` and the layout of the draft.
    fn add(&self, id: TensorId, given: TensorRef<'g>) -> TensorRef<'g> {
        let functions = &self.runtime.functions;
        let draft = &self.found.draft;
        let origin = &draft.origins[id as usize];
        // SAFETY: a live context with room for a tensor, and a live tensor.
        let new = unsafe { (functions.ggml_view_tensor)(self.context.as_ptr(), given.as_ptr()) };
        // SAFETY: a new tensor in a live context.
        let new = unsafe { TensorRef::new(new) }.expect("the context has room, which was checked");
        let name = CString::new(origin.name(&given.name()).unwrap_or_default()).unwrap_or_default();
        // SAFETY: a live tensor, and a string that ggml copies as far as there is room.
        unsafe { (functions.ggml_set_name)(new.as_ptr(), name.as_ptr()) };
        // SAFETY: the tensor is new, and no reference into it is held.
        let mut writer = unsafe { TensorMut::new(new) };
        writer.clear_view();
        match origin.role.operation() {
            None => writer.set_operation_of(given),
            Some(_) => writer.set_operation(self.operation(origin.role)),
        }
        writer.set_flags(draft.graph.tensor(id).flags.0);
        let layout = draft.graph.layout(id);
        writer.set_extents(layout.ne);
        writer.set_strides(layout.nb.map(|stride| usize::try_from(stride).expect("addressable")));
        if let (Kind::Im2col(Some(window)), Role::Part) = (draft.kinds[id as usize], origin.role) {
            writer.set_parameter(PADDING_ABOVE, i32::try_from(window.padding).expect("it was an i32"));
        }
        (0..MAX_SOURCES).for_each(|slot| writer.clear_source(slot));
        new
    }

    fn operation(&self, role: Role) -> u32 {
        let operations = &self.runtime.operations;
        match role {
            Role::Memory => operations.none(),
            Role::Slice => operations.view(),
            _ => operations.reshape(),
        }
    }

    /// Sets the sources of what is new or whole, and the memory that each view is of.
    fn connect(&self, tensors: &[TensorRef<'g>]) {
        let draft = &self.found.draft;
        for ((id, &tensor), origin) in (0..).zip(tensors).zip(&draft.origins) {
            let graph_tensor = draft.graph.tensor(id);
            if origin.role != Role::Given {
                // SAFETY: no reference into the tensor is held.
                let mut writer = unsafe { TensorMut::new(tensor) };
                if origin.role == Role::Whole {
                    writer.set_operation(self.runtime.operations.reshape());
                    (0..MAX_SOURCES).for_each(|slot| writer.clear_source(slot));
                }
                for (slot, &source) in draft.graph.sources(id).iter().enumerate() {
                    writer.set_source(slot, tensors[source as usize]);
                }
            }
            let Some(view) = graph_tensor.view else { continue };
            let root = tensors[view.root as usize];
            if tensor.view_source() == Some(root) {
                continue;
            }
            let offset = usize::try_from(view.offset).expect("addressable");
            let data = root.data();
            // SAFETY: as above.
            let mut writer = unsafe { TensorMut::new(tensor) };
            writer.set_view(root, offset);
            if origin.role != Role::Given && !data.is_null() {
                writer.set_memory(std::ptr::null_mut(), data.wrapping_byte_add(offset));
            }
        }
    }

    /// Lists the new graph, and counts the uses of new tensors as backends expect it. A part has at least the uses that
    /// ggml counted of the whole, so that backends fuse it only where they would have fused the whole.
    ///
    /// # Safety
    /// `graph` is live, has room, and no other thread uses it; no [`GraphRef`] of it is used afterwards.
    unsafe fn list(&self, graph: NonNull<ggml_cgraph>, tensors: &[TensorRef<'g>], leafs: usize) {
        let draft = &self.found.draft;
        let order: Vec<TensorRef<'g>> = draft.graph.nodes().iter().map(|&node| tensors[node as usize]).collect();
        let is_given = |node: &&TensorId| draft.origins[**node as usize].role.is_given();
        let kept: Vec<TensorRef<'g>> =
            draft.graph.nodes().iter().filter(is_given).map(|&node| tensors[node as usize]).collect();
        // SAFETY: fewer nodes than the graph had, or as many; the caller's promise.
        unsafe { GraphRef::replace_lists(graph, &kept, leafs) };
        for &node in draft.graph.nodes().iter().filter(|node| !is_given(node)) {
            // SAFETY: a live graph with room, and a live tensor whose sources are in the graph.
            unsafe {
                (self.runtime.functions.ggml_build_forward_expand)(graph.as_ptr(), tensors[node as usize].as_ptr())
            };
        }
        // SAFETY: the graph has room, which was checked; the caller's promise.
        unsafe { GraphRef::replace_lists(graph, &order, leafs) };
        // SAFETY: a live graph of this thread.
        let Some(mut counts) = (unsafe { UseCounts::of(graph) }) else { return };
        let mut uses: HashMap<usize, i32> = HashMap::new();
        for source in order.iter().flat_map(|node| node.sources()) {
            *uses.entry(source.address()).or_default() += 1;
        }
        for (&tensor, origin) in tensors.iter().zip(&draft.origins).filter(|(_, origin)| !origin.role.is_given()) {
            let own = uses.get(&tensor.address()).copied().unwrap_or(0);
            counts.set(tensor, own.max(counts.of_tensor(self.given[origin.tensor as usize])));
        }
    }
}
