//! The frame of a pass over a live graph that no allocator has planned: the graph is read for its future compute buffer, a
//! function of [`crate::graph`] searches for a better one, and the live graph becomes that, if there is room.

use std::fmt;
use std::ptr::NonNull;

use crate::graph::{BufferIndex, BufferSpec, Graph, NotChanged, Requests, Rules, Sizes, TensorId};
use crate::placement::Bytes;

use crate::ggml::bindings::{ggml_cgraph, ggml_context};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::live::visited::Visited;
use crate::ggml::process::settings::settings;
use crate::ggml::read::{ReadGraph, Requested, read};
use crate::ggml::retention::{LiveRetention, retained_by_any};

/// The alignment assumed for an unknown buffer type: ggml's CPU buffer type requires no more.
const UNKNOWN_ALIGNMENT: Bytes = 32;

/// A live graph that a pass changes. A future compute buffer will have all of its tensors.
#[derive(Debug)]
pub struct GivenGraph<'g> {
    pub runtime: &'static Runtime,
    pub reading: ReadGraph<'g>,
    /// The type of the compute buffer, if it is known.
    pub buffer_type: Option<BufferType>,
    leafs: Vec<BufferIndex>,
    nodes: Vec<BufferIndex>,
}

impl<'g> GivenGraph<'g> {
    /// Reads a graph, in which the tensors are retained whose names the settings retain.
    pub fn new(runtime: &'static Runtime, graph: GraphRef<'g>, buffer_type: Option<BufferType>) -> Self {
        let types: Vec<BufferType> = buffer_type.into_iter().collect();
        let mut reading = read(runtime, &types, graph, &Requested::default());
        LiveRetention::of_names(settings().retain).retain_in(&mut reading.graph, graph);
        Self { runtime, reading, buffer_type, leafs: vec![0; graph.leafs.len()], nodes: vec![0; graph.nodes.len()] }
    }

    /// Returns the alignment of tensors, in bytes.
    pub fn alignment(&self) -> Bytes {
        self.buffer_type.map_or(UNKNOWN_ALIGNMENT, BufferType::alignment)
    }

    /// Returns how the buffer is planned with the settings of the process, in an allocator that the program uses itself.
    pub fn spec(&self) -> BufferSpec {
        let settings = settings();
        let rules = Rules { keep_inputs: true, ..Rules::ALL };
        let unknown = BufferSpec { alignment: UNKNOWN_ALIGNMENT, max_chunk: None, rules, effort: settings.effort };
        let rules = settings.rules.for_direct_use();
        self.buffer_type.map_or(unknown, |buffer_type| buffer_type.spec(&rules, settings.effort))
    }

    /// Returns the buffer of each tensor.
    pub fn requests(&self) -> Requests<'_> {
        Requests { leafs: &self.leafs, nodes: &self.nodes }
    }

    /// Returns the sizes of tensors in the buffer, by id.
    pub fn sizes(&self) -> impl Sizes {
        move |id: TensorId, _: BufferIndex| {
            let tensor = self.reading.tensors[id as usize];
            self.buffer_type.map_or_else(|| self.runtime.nbytes(tensor), |it| it.alloc_size(tensor))
        }
    }

    /// Returns the first tensor that each tensor aliases.
    pub fn same_memory(&self) -> Vec<TensorId> {
        same_memory(self.runtime, &self.reading)
    }

    /// Returns, by id, which tensors stay as they are: `given` ones, and those that the settings or an allocator retain.
    ///
    /// # Errors
    /// [`NotFitted::NotInGraph`].
    pub fn kept<F: Budgeted>(&self, given: &[TensorRef<'_>]) -> Result<Vec<bool>, NotFitted<F>> {
        let tensors = &self.reading.tensors;
        let mut kept = retained_by_any(tensors, &LiveRetention::of_names(settings().retain));
        for tensor in given {
            let id = tensors.iter().position(|other| other == tensor);
            kept[id.ok_or_else(|| NotFitted::NotInGraph(tensor.name()))?] = true;
        }
        Ok(kept)
    }
}

/// Returns, by tensor, the first tensor whose memory overlaps with its own, directly or through others, among those
/// that have memory before planning. Tensors may alias without being views of each other. Addresses in different
/// buffers are compared too: two buffers may be of the same memory.
pub fn same_memory(runtime: &Runtime, reading: &ReadGraph<'_>) -> Vec<TensorId> {
    let mut same: Vec<TensorId> = (0..).take(reading.tensors.len()).collect();
    let mut end: Bytes = 0;
    let mut first = None;
    for (start, size, id) in known_memory(runtime, &reading.graph, &reading.tensors) {
        match first {
            Some(first) if start < end => same[id as usize] = first,
            _ => first = Some(id),
        }
        end = end.max(start.saturating_add(size));
    }
    same
}

/// Returns address, size in bytes and id of the tensors that have memory before planning, in order of addresses.
fn known_memory(runtime: &Runtime, graph: &Graph, tensors: &[TensorRef<'_>]) -> Vec<(Bytes, Bytes, TensorId)> {
    let external = (0..).zip(tensors).filter(|&(id, tensor)| graph.tensor(id).external && !tensor.data().is_null());
    let mut known: Vec<_> =
        external.map(|(id, &tensor)| (tensor.data().addr() as Bytes, runtime.nbytes(tensor), id)).collect();
    known.retain(|&(_, size, _)| size > 0);
    known.sort_unstable();
    known
}

/// What a pass finds that makes a graph fit a budget.
pub trait Budgeted: fmt::Debug {
    /// The kind of the new tensors.
    const NEW_TENSORS: &'static str;
    /// What helps besides a larger budget.
    const HELPS: &'static str;

    /// Returns the bytes of its plan.
    fn planned_bytes(&self) -> Bytes;

    /// Returns how many nodes the live graph, and how many new tensors the context must have room for; `None` if the graph
    /// stays as it is.
    fn room(&self) -> Option<(usize, usize)>;
}

/// Why a live graph is not changed. It is then as before.
#[derive(Debug)]
pub enum NotFitted<F: Budgeted> {
    /// The graph cannot be changed.
    Graph(NotChanged),
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

/// Makes a graph fit a budget, if `search` finds one that does. `apply` makes the live graph that one; new tensors are in
/// `context`.
///
/// # Errors
/// [`NotFitted`]; then nothing has changed.
///
/// # Safety
/// `context` and `graph` are live, and no other thread uses them or the graph's tensors.
pub unsafe fn fit<F: Budgeted>(
    runtime: &'static Runtime,
    (context, graph): (NonNull<ggml_context>, NonNull<ggml_cgraph>),
    (buffer_type, budget): (Option<BufferType>, Bytes),
    search: impl FnOnce(&GivenGraph<'_>) -> Result<F, NotFitted<F>>,
    apply: impl FnOnce(&GivenGraph<'_>, &F),
) -> Result<F, NotFitted<F>> {
    // SAFETY: a live graph of this thread: see "# Safety".
    let given = GivenGraph::new(runtime, unsafe { GraphRef::new(graph) }, buffer_type);
    let found = search(&given)?;
    if found.planned_bytes() > budget {
        return Err(NotFitted::OverBudget { budget, smallest: Box::new(found) });
    }
    if let Some(room) = found.room() {
        // SAFETY: a live graph and context of this thread: see "# Safety".
        unsafe { expect_room(runtime, context, graph, room) }?;
        apply(&given, &found);
    }
    Ok(found)
}

/// Checks that ggml can add nodes to the graph, that it has room for `nodes` in all, and the context for `tensors` new ones.
///
/// # Errors
/// [`NotFitted::ListedByHand`], [`NotFitted::GraphIsFull`], [`NotFitted::ContextIsFull`].
///
/// # Safety
/// `context` and `graph` are live, and no other thread uses them.
unsafe fn expect_room<F: Budgeted>(
    runtime: &Runtime,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    (nodes, tensors): (usize, usize),
) -> Result<(), NotFitted<F>> {
    // SAFETY: a live graph: see "# Safety".
    let live = unsafe { GraphRef::new(graph) };
    // SAFETY: a live graph of this ggml that no other thread uses: see "# Safety".
    if let Some(tensor) = unsafe { Visited::of(runtime, graph) }.first_missing(live) {
        return Err(NotFitted::ListedByHand(tensor.name()));
    }
    // SAFETY: a live graph: see "# Safety".
    let capacity = unsafe { GraphRef::capacity(graph) };
    if nodes > capacity {
        return Err(NotFitted::GraphIsFull { capacity, needed: nodes });
    }
    // SAFETY: a live context: see "# Safety".
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
