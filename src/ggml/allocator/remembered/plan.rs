//! A graph that was planned, and where its tensors go.

use std::cell::OnceCell;

use crate::graph::{Address, BufferPlan, Graph, GraphPlan, Operation, Tensor, TensorId};
use crate::placement::Bytes;

use crate::ggml::allocator::remembered::key::GraphKey;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::read::Reading;
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::read::requested::Requested;

/// A plan, and all that must be known to see whether it is right for another graph. What only giving memory out or
/// comparing graphs takes is made when that is first done: many graphs are only ever reserved.
#[derive(Debug)]
pub struct RememberedPlan {
    /// The graph as it was when it was planned.
    pub graph: Graph,
    /// How many tensors are leafs or nodes: the others, with larger ids, are only referred to.
    pub listed: usize,
    /// Tells the planned graph from others, as far as planning reads them.
    key: GraphKey,
    /// Tells it from all others, where sizes were asked tensor by tensor: those may depend on whatever a tensor says.
    exact: Option<Fingerprint>,
    /// Another graph that the plan served last.
    served: Option<Fingerprint>,
    /// [`Fingerprint::of_outputs`] of the latest graph with redirected results that the plan serves: their check does not hold
    /// for memory in a buffer of another type.
    pub checked_outputs: Option<Fingerprint>,
    /// The buffers that were wanted.
    pub requested: Requested,
    /// Without the problems that it solves.
    plan: GraphPlan,
    gifts: OnceCell<Gifts>,
    wiring: OnceCell<Wiring>,
}

/// Who depends on whose memory.
#[derive(Debug)]
pub struct Wiring {
    /// Where each tensor gets its memory from, by id.
    pub memory: Vec<Memory>,
    /// By id: must it look as it was planned, since its bytes are where another operation expects them? Empty where none
    /// must.
    pub is_fixed: Vec<bool>,
}

/// What a plan gives.
#[derive(Debug)]
struct Gifts {
    /// In ggml's order.
    list: Vec<Gift>,
    /// How many of them are memory of the plan.
    placed: usize,
}

/// What a tensor gets.
#[derive(Clone, Copy, Debug)]
enum Gift {
    /// Memory of the plan, and the bytes that its buffer type wanted for it.
    Address(TensorId, Address, Bytes),
    /// The memory of its root.
    View(TensorId),
}

/// Where a tensor's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The plan gives it some.
    Planned {
        /// Where.
        address: Address,
        /// Bytes that the buffer type wanted.
        alloc_size: Bytes,
        /// The source that it is computed in place of.
        in_place_of: Option<TensorId>,
    },
    /// It is a view. A node computed in place through it needs it to stay at the start of its root.
    View {
        /// The owner of the memory.
        root: TensorId,
        /// Is a node computed in place through it?
        at_start: bool,
    },
    /// It came with memory.
    External,
    /// Nobody needs it.
    Nothing,
}

/// What giving a tensor its memory takes.
#[derive(Clone, Copy, Debug)]
pub enum Assignment<'g> {
    /// It gets memory of the plan, of so many bytes.
    Place(TensorRef<'g>, Address, Bytes),
    /// It gets the memory of its root.
    PlaceView(TensorRef<'g>),
}

impl RememberedPlan {
    /// Remembers the graph of `reading`, planned as `plan`, and its tensors; with its fingerprint where sizes depend on more
    /// than layouts.
    pub fn new(reading: Reading<'_>, plan: GraphPlan, requested: Requested, exact: Option<Fingerprint>) -> Self {
        let Reading { graph, tensors, listed, ops, redirecting, .. } = reading;
        Self {
            key: GraphKey::new(tensors, ops, redirecting, &graph, listed),
            exact,
            served: None,
            checked_outputs: None,
            listed,
            requested,
            plan: GraphPlan { problems: Vec::new(), ..plan },
            graph,
            gifts: OnceCell::new(),
            wiring: OnceCell::new(),
        }
    }

    /// By buffer: its chunks and its lower bound.
    pub fn buffers(&self) -> &[BufferPlan] {
        &self.plan.buffers
    }

    /// Who depends on whose memory.
    pub fn wiring(&self) -> &Wiring {
        let Self { graph, plan, .. } = self;
        self.wiring.get_or_init(|| Wiring { memory: memory(graph, plan), is_fixed: fixed(graph, plan) })
    }

    /// How many tensors the plan gives memory to.
    pub fn placed(&self) -> usize {
        self.gifts().placed
    }

    fn gifts(&self) -> &Gifts {
        self.gifts.get_or_init(|| Gifts::new(&self.graph, &self.plan, self.listed))
    }

    /// Is it made for this very graph? `fingerprint` takes that of the graph.
    pub fn is_made_for(&self, graph: GraphRef<'_>, fingerprint: impl FnOnce() -> Fingerprint) -> bool {
        match self.exact {
            Some(exact) => self.lists_all() && exact == fingerprint(),
            None => self.has_positions() && self.key.are_those_of(graph, &self.graph),
        }
    }

    /// The fingerprint of another graph that it served last, if all of its tensors are in its lists: fingerprints tell nothing
    /// of others.
    pub fn served(&self) -> Option<Fingerprint> {
        self.served.filter(|_| self.lists_all())
    }

    /// Notes that it serves another graph than the planned one: the next graph is probably that one again, as a prompt is planned and tokens
    /// follow. `unassigned` of its tensors need memory of the plan: where others came with memory, their sizes were not compared, so such a graph is compared each time.
    pub fn note_served(&mut self, unassigned: usize, fingerprint: Fingerprint) {
        if self.placed() == unassigned {
            self.served = Some(fingerprint);
        }
    }

    /// Are all tensors in the lists, each once?
    fn lists_all(&self) -> bool {
        self.has_positions() && self.listed == self.graph.tensors().len()
    }

    /// Are all tensors in the lists, each once, but for some that came with memory, as results of another graph do? Then the
    /// ids of all others are positions there.
    fn has_positions(&self) -> bool {
        let Self { graph, listed, .. } = self;
        let others = &graph.tensors()[*listed..];
        *listed == graph.leafs().len() + graph.nodes().len()
            && others.iter().all(|tensor| tensor.external && tensor.view.is_none())
    }

    /// The tensors of a graph that it serves, by id. `None` when some that may need memory are in none of its lists.
    pub fn tensors_of<'g>(&self, graph: GraphRef<'g>) -> Option<impl Fn(TensorId) -> Option<TensorRef<'g>>> {
        let leafs = graph.leafs.len();
        self.has_positions().then_some(move |id: TensorId| {
            let id = id as usize;
            if id < leafs { graph.leafs.get(id).copied() } else { graph.nodes.get(id - leafs).copied() }
        })
    }

    /// What tensors, given by id, still need, in ggml's order.
    pub fn assignments<'a, 'g: 'a>(
        &'a self,
        tensor: impl Fn(TensorId) -> Option<TensorRef<'g>> + 'a,
    ) -> impl Iterator<Item = Assignment<'g>> + 'a {
        self.gifts().list.iter().filter_map(move |gift| match *gift {
            Gift::Address(id, address, alloc_size) => {
                let tensor = tensor(id).filter(|tensor| !tensor.has_memory())?;
                Some(Assignment::Place(tensor, address, alloc_size))
            }
            // An empty root in an empty buffer has no address, and ggml aborts on views of it; they need none either.
            Gift::View(id) => {
                let tensor = tensor(id).filter(|tensor| tensor.buffer().is_null())?;
                let root = tensor.view_source()?;
                let is_placed = !root.buffer().is_null() && !root.data().is_null();
                is_placed.then_some(Assignment::PlaceView(tensor))
            }
        })
    }
}

impl Gifts {
    fn new(graph: &Graph, plan: &GraphPlan, listed: usize) -> Self {
        let gift = |id: TensorId| match graph.tensor(id) {
            Tensor { view: Some(_), .. } => Some(Gift::View(id)),
            Tensor { external: true, .. } => None,
            _ => plan.placed(id).map(|(address, alloc_size)| Gift::Address(id, address, alloc_size)),
        };
        let mut list = Vec::with_capacity(graph.tensors().len());
        if listed == graph.tensors().len() && is_in_order(graph) {
            list.extend((0..).take(plan.allocations.len()).filter_map(gift));
        } else {
            list.extend(order(graph).into_iter().filter_map(gift));
        }
        let placed = list.iter().filter(|gift| matches!(gift, Gift::Address(..))).count();
        Self { list, placed }
    }
}

fn memory(graph: &Graph, plan: &GraphPlan) -> Vec<Memory> {
    let of_tensor = |(id, tensor): (TensorId, &Tensor)| match (tensor.view, plan.placed(id)) {
        (Some(view), _) => Memory::View { root: view.root, at_start: false },
        (None, _) if tensor.external => Memory::External,
        (None, Some((address, alloc_size))) => {
            let in_place_of = plan.allocations[id as usize].and_then(|allocation| allocation.in_place_of);
            Memory::Planned { address, alloc_size, in_place_of }
        }
        (None, None) => Memory::Nothing,
    };
    let mut memory: Vec<Memory> = (0..).zip(graph.tensors()).map(of_tensor).collect();
    for source in plan.allocations.iter().filter_map(|allocation| (*allocation)?.in_place_of) {
        if let Memory::View { at_start, .. } = &mut memory[source as usize] {
            *at_start = true;
        }
    }
    memory
}

/// A CONCAT with an operand inside its result finds it there only while both are as long as planned.
fn fixed(graph: &Graph, plan: &GraphPlan) -> Vec<bool> {
    let mut fixed = Vec::new();
    for &node in graph.nodes() {
        if graph.tensor(node).operation != Operation::Concat {
            continue;
        }
        let block =
            |id: TensorId| plan.allocations[id as usize].map(|allocation| (allocation.buffer, allocation.block));
        let inside = |&&source: &&TensorId| block(source).is_some() && block(source) == block(node);
        if graph.sources(node).iter().any(|source| inside(&source)) {
            fixed.resize(graph.tensors().len(), false);
            for &id in graph.sources(node).iter().chain([&node]) {
                fixed[id as usize] = true;
            }
        }
    }
    fixed
}

/// Does every tensor come after those that it refers to?
fn is_in_order(graph: &Graph) -> bool {
    let comes_after = |(id, tensor): (TensorId, &Tensor)| tensor.view.is_none_or(|view| view.root <= id);
    graph.last_readers().is_some() && (0..).zip(graph.tensors()).all(comes_after)
}

/// Roots come before their views, also where a marker names a view before its root is computed.
fn order(graph: &Graph) -> Vec<TensorId> {
    let mut seen = vec![false; graph.tensors().len()];
    let mut order = Vec::with_capacity(graph.tensors().len());
    let mut visit = |id: TensorId| {
        for id in [graph.root(id), id] {
            if !std::mem::replace(&mut seen[id as usize], true) {
                order.push(id);
            }
        }
    };
    graph.leafs().iter().for_each(|&leaf| visit(leaf));
    for &node in graph.nodes() {
        graph.sources(node).iter().for_each(|&source| visit(source));
        visit(node);
    }
    order
}
