//! A planned graph with its plan: what must be known to assign addresses and to compare other graphs with it.

use std::cell::OnceCell;

use crate::graph::{Address, Allocation, BufferPlan, Flags, Graph, GraphPlan, Op, Tensor, TensorId};
use crate::placement::Bytes;

use crate::ggml::allocator::cache::{Entry, Served};
use crate::ggml::allocator::plan_cache::assignments::Assignments;
use crate::ggml::allocator::plan_cache::key::{GraphKey, Sample};
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::read::workspace::Workspace;
use crate::ggml::read::{ReadGraph, Requested};
use crate::ggml::retention::RetainedAt;

/// Additional memory of a plan.
const BYTES_OF_PLAN: usize = 4096;

/// Memory that a plan takes for each tensor: here, and in sources, layouts, addresses and assignments.
const BYTES_OF_TENSOR: usize = size_of::<Tensor>() + size_of::<Option<Allocation>>() + size_of::<MemorySource>() + 64;

/// A plan, and the facts that decide whether it serves a graph. What only assignment or comparison needs is computed on
/// first use: many graphs are only reserved.
#[derive(Debug)]
pub struct CachedPlan {
    /// The graph as it was planned.
    pub graph: Box<Graph>,
    /// The number of tensors that are leafs or nodes; the others, with larger ids, are only referred to.
    pub listed: usize,
    /// Identifies the planned graph, as far as planning reads it.
    key: GraphKey,
    /// Where each listed tensor is listed first, by id, if a tensor is listed twice: ids are not positions then.
    positions: Option<Vec<u32>>,
    /// The fingerprint of the planned graph, where the key does not suffice: a buffer type computes sizes tensor by
    /// tensor, which may depend on any field, or a node is listed twice.
    exact: Option<Fingerprint>,
    /// The graphs that the plan served.
    pub served: Served,
    /// [`Fingerprint::of_outputs`] of the latest graph whose redirected results were checked: the check does not cover
    /// memory in a buffer of another type.
    checked_outputs: Option<Fingerprint>,
    /// The planned leafs that keep their memory through the whole graph, with their addresses. Schedulers list several
    /// copies of an input, which nodes read in turns, and flag them so.
    kept_leafs: KeptLeafs,
    /// The buffers requested for leafs and nodes.
    pub requested: Requested,
    /// The tensors that the plan retains.
    pub retained: Vec<RetainedAt>,
    /// True if a plan for a larger graph may serve the graph too: this one is dropped before others then.
    pub is_expendable: bool,
    /// The plan, without the placement problems that it solves.
    plan: GraphPlan,
    assignments: OnceCell<Assignments>,
    expectations: OnceCell<Expectations>,
}

/// The properties that the plan relies on in each tensor of a graph that it serves.
#[derive(Debug)]
pub struct Expectations {
    /// Where each tensor's memory comes from, by id.
    pub memory: Vec<MemorySource>,
    /// Whether the operation and the layout must be the planned ones, by id, since a CONCAT expects its bytes at a
    /// fixed place. Empty if that is so for no tensor.
    pub is_fixed: Vec<bool>,
}

/// Where a tensor's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemorySource {
    /// From the plan.
    Planned {
        /// The planned address.
        address: Address,
        /// Bytes that the buffer type required.
        alloc_size: Bytes,
        /// The in-place source.
        in_place_of: Option<TensorId>,
    },
    /// From the root that it is a view of.
    View {
        /// The root.
        root: TensorId,
        /// Whether a node is computed in place of the view, which then must start where its root does.
        at_start: bool,
    },
    /// It came with memory.
    External,
    /// It needs none: no node uses it.
    Unneeded,
}

impl Entry for CachedPlan {
    fn bytes(&self) -> usize {
        BYTES_OF_PLAN + self.graph.tensors().len() * BYTES_OF_TENSOR
    }

    fn is_expendable(&self) -> bool {
        self.is_expendable
    }
}

impl CachedPlan {
    /// Remembers that the graph of `reading` was planned as `plan`; `exact` is its fingerprint if sizes depend on more
    /// than layouts, or a node is listed twice.
    pub fn new(
        reading: ReadGraph<'_>,
        plan: GraphPlan,
        requested: Requested,
        retained: Vec<RetainedAt>,
        exact: Option<Fingerprint>,
    ) -> Self {
        let ReadGraph { graph, tensors, listed, ops, redirected, .. } = reading;
        Self {
            key: GraphKey::new(tensors, ops, redirected, &graph, listed),
            positions: first_positions(&graph, listed),
            kept_leafs: kept_leafs(&graph, &plan),
            exact,
            served: Served::default(),
            checked_outputs: None,
            listed,
            requested,
            retained,
            is_expendable: false,
            plan,
            graph,
            assignments: OnceCell::new(),
            expectations: OnceCell::new(),
        }
    }

    /// Returns `true` if the redirected results of `graph`, which the plan serves, have to be checked: constants may
    /// have changed in ways that the key does not cover.
    pub fn must_check_outputs(&self, runtime: &'static Runtime, graph: GraphRef<'_>) -> bool {
        self.checked_outputs
            .is_some_and(|checked| Fingerprint::of_outputs(runtime, graph).is_some_and(|outputs| outputs != checked))
    }

    /// Notes that the redirected results of `graph`, if it has any, were checked.
    pub fn note_checked_outputs(&mut self, runtime: &'static Runtime, graph: GraphRef<'_>) {
        if let Some(outputs) = Fingerprint::of_outputs(runtime, graph) {
            self.checked_outputs = Some(outputs);
        }
    }

    /// Leaves the lists to the next graph and the next plan.
    pub fn leave_to(self, workspace: &mut Workspace) {
        let Self { graph, key: GraphKey { addresses, ops, .. }, plan, .. } = self;
        workspace.reuse_lists(graph, addresses, ops);
        workspace.reuse_plan(plan);
    }

    /// The chunks and the lower bound of each buffer.
    pub fn buffers(&self) -> &[BufferPlan] {
        &self.plan.buffers
    }

    /// The properties that the plan relies on in each tensor of a graph that it serves.
    pub fn expectations(&self) -> &Expectations {
        let Self { graph, plan, .. } = self;
        self.expectations.get_or_init(|| Expectations { memory: memory(graph, plan), is_fixed: fixed(graph, plan) })
    }

    /// The ids of the planned leafs that keep their memory through the whole graph.
    pub fn kept_leafs(&self) -> impl Iterator<Item = TensorId> {
        self.kept_leafs.iter().map(|&(leaf, _)| leaf)
    }

    /// Returns `true` for a tensor whose memory the plan never reuses, and that may be any such tensor.
    pub fn is_permanent(&self, id: TensorId) -> bool {
        let Expectations { memory, is_fixed } = self.expectations();
        let is_fixed = is_fixed.get(id as usize).is_some_and(|&fixed| fixed);
        !is_fixed && (memory[id as usize] == MemorySource::External || self.kept_leafs().any(|leaf| leaf == id))
    }

    /// Returns `true` if another plan for several buffers with these `kept_leafs` may serve a graph next, without the
    /// scheduler being told: other backends may still compute the graph before, from copies of inputs that have to
    /// stay.
    pub fn may_be_followed_by(&self, kept_leafs: &KeptLeafs) -> bool {
        !self.requested.is_listed() || self.kept_leafs.is_empty() || self.kept_leafs == *kept_leafs
    }

    /// Returns `true` if another plan may serve a graph next: see [`CachedPlan::may_be_followed_by`].
    pub fn may_be_followed_by_plan(&self, other: &Self) -> bool {
        self.may_be_followed_by(&other.kept_leafs)
    }

    /// Returns the address of a tensor, where the plan has one, and the bytes that its buffer type required for it.
    pub fn placed(&self, tensor: TensorId) -> Option<(Address, Bytes)> {
        self.plan.placed(tensor)
    }

    /// How the tensors are assigned their memory.
    pub fn assignments(&self) -> &Assignments {
        self.assignments.get_or_init(|| Assignments::new(&self.graph, &self.plan, self.listed))
    }

    /// Returns `true` if the plan was made for `graph`, whose fingerprint `fingerprint` computes.
    pub fn is_made_for(&self, graph: GraphRef<'_>, sample: Sample, fingerprint: impl FnOnce() -> Fingerprint) -> bool {
        self.key.sample == sample
            && match self.exact {
                Some(exact) => self.lists_all() && exact == fingerprint(),
                None => self.has_key() && self.key.matches(graph, &self.graph),
            }
    }

    /// Returns `true` if the plan has served the graph with this fingerprint lately. Fingerprints do not cover unlisted
    /// tensors.
    pub fn has_served(&self, fingerprint: impl FnOnce() -> Fingerprint) -> bool {
        !self.served.is_empty() && self.lists_all() && self.served.contains(fingerprint())
    }

    /// Notes that the plan serves another graph than the planned one. The next graphs are probably that one again: a
    /// prompt is planned, then tokens follow. `unassigned` of its tensors need memory of the plan. Where others came
    /// with memory, their sizes were not compared, so such a graph is compared each time.
    pub fn note_served(&mut self, unassigned: usize, fingerprint: Fingerprint) {
        if self.assignments().placed() == unassigned {
            self.served.add(fingerprint);
        }
    }

    /// Returns `true` if the key covers every tensor that needs memory.
    fn has_key(&self) -> bool {
        if self.positions.is_none() { self.has_positions() } else { self.lists_all() }
    }

    /// Returns `true` if every tensor is listed.
    fn lists_all(&self) -> bool {
        self.listed == self.graph.tensors().len()
    }

    /// Returns `true` if every tensor is listed, except some that came with memory, such as results of another graph.
    fn has_positions(&self) -> bool {
        let others = &self.graph.tensors()[self.listed..];
        others.iter().all(|tensor| tensor.external && tensor.view.is_none())
    }

    /// Returns the lookup of `graph`'s tensors by planned id. `None` if a tensor that may need memory is in neither
    /// list.
    pub fn tensors_of<'g>(&self, graph: GraphRef<'g>) -> Option<impl Fn(TensorId) -> Option<TensorRef<'g>>> {
        let (leafs, positions) = (graph.leafs.len(), self.positions.as_deref());
        self.has_positions().then_some(move |id: TensorId| {
            let id = id as usize;
            let at = positions.map_or(Some(id), |positions| positions.get(id).map(|&position| position as usize))?;
            if at < leafs { graph.leafs.get(at).copied() } else { graph.nodes.get(at - leafs).copied() }
        })
    }
}

/// Returns where each of the `listed` tensors of a graph is listed first, by id; `None` if that is its id, since none
/// is listed twice.
fn first_positions(graph: &Graph, listed: usize) -> Option<Vec<u32>> {
    if listed == graph.leafs().len() + graph.nodes().len() {
        return None;
    }
    let mut positions = vec![u32::MAX; listed];
    for (position, &id) in (0..).zip(graph.leafs().iter().chain(graph.nodes())) {
        let first = &mut positions[id as usize];
        *first = position.min(*first);
    }
    Some(positions)
}

/// Leafs with their addresses, in the order of their ids.
pub type KeptLeafs = Vec<(TensorId, Address)>;

/// Returns the planned leafs that keep their memory through the whole graph, with their addresses.
pub fn kept_leafs(graph: &Graph, plan: &GraphPlan) -> KeptLeafs {
    let is_kept = |&&id: &&TensorId| graph.tensor(id).flags.has(Flags::OUTPUT);
    graph.leafs().iter().filter(is_kept).filter_map(|&id| Some((id, plan.placed(id)?.0))).collect()
}

fn memory(graph: &Graph, plan: &GraphPlan) -> Vec<MemorySource> {
    let of_tensor = |(id, tensor): (TensorId, &Tensor)| match (tensor.view, plan.placed(id)) {
        (Some(view), _) => MemorySource::View { root: view.root, at_start: false },
        (None, _) if tensor.external => MemorySource::External,
        (None, Some((address, alloc_size))) => {
            let in_place_of = plan.allocations[id as usize].and_then(|allocation| allocation.in_place_of);
            MemorySource::Planned { address, alloc_size, in_place_of }
        }
        (None, None) => MemorySource::Unneeded,
    };
    let mut memory: Vec<MemorySource> = (0..).zip(graph.tensors()).map(of_tensor).collect();
    for source in plan.allocations.iter().filter_map(|allocation| (*allocation)?.in_place_of) {
        if let MemorySource::View { at_start, .. } = &mut memory[source as usize] {
            *at_start = true;
        }
    }
    memory
}

/// Returns the tensors whose layout must stay as planned: a CONCAT whose operand was computed inside of its result
/// relies on the layouts of all operands and of the result.
fn fixed(graph: &Graph, plan: &GraphPlan) -> Vec<bool> {
    let mut fixed = Vec::new();
    for &node in graph.nodes() {
        if graph.tensor(node).op != Op::Concat {
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
