//! The first pass over any graph: tensors may be used before their def, or be in no list. The program point of a step
//! is its number plus 1.

use crate::graph::{BufferIndex, Flags, Graph, Op, Requests, TensorId};
use crate::placement::Step;

use super::inactive::{InactiveNodes, KnownUses};
use super::last_uses::{FirstPass, LastUses, Point};

/// The point of the first step.
const FIRST: Point = Point(1);

/// Runs the first pass; `candidates` may be inactive.
pub fn any_order(graph: &Graph, requests: Requests<'_>, candidates: &[(Step, TensorId)]) -> FirstPass {
    let mut scan = UseScan::new(graph, inactive(graph, candidates));
    scan.visit_leafs(requests.leafs);
    scan.visit_nodes(requests.nodes);
    scan.discount_early_writers();
    let last_uses = scan.last_uses();
    let UseScan { leafs, inputs, uses_before_def, inactive, .. } = scan;
    FirstPass { leafs, inputs, last_uses, uses_before_def, inactive }
}

fn inactive(graph: &Graph, candidates: &[(Step, TensorId)]) -> InactiveNodes {
    if candidates.is_empty() {
        return InactiveNodes::default();
    }
    let is_used = graph.used_by_nodes();
    let uses = KnownUses { is_used: |id| is_used[id as usize], is_used_after: |_| false };
    let steps = Step::try_from(graph.nodes().len()).expect("fewer than 2^32 nodes");
    InactiveNodes::find(graph, candidates, steps, &uses)
}

/// The results of the walk so far.
struct UseScan<'a> {
    graph: &'a Graph,
    inactive: InactiveNodes,
    tensors: Vec<DefAndUses>,
    /// The leafs to allocate, and their buffers.
    leafs: Vec<(TensorId, BufferIndex)>,
    /// The inputs to allocate that are not leafs, and their buffers.
    inputs: Vec<(TensorId, BufferIndex)>,
    /// The steps, in order, that use a source before its def.
    uses_before_def: Vec<Step>,
    /// Nodes that write through a view before the def of its root.
    early_writers: Vec<TensorId>,
}

/// The def and the last uses of a tensor.
#[derive(Clone)]
struct DefAndUses {
    /// The last use by an active node.
    last_use: Point,
    /// The last use by an inactive node.
    last_inactive_use: Point,
    is_leaf: bool,
    /// The last step that computes it; the first step where none does.
    def: Point,
    /// True until it is allocated from the start; false where no memory is planned for it.
    unallocated: bool,
    /// True as long as no step so far computes it, and it has no memory.
    undefined: bool,
}

impl<'a> UseScan<'a> {
    fn new(graph: &'a Graph, inactive: InactiveNodes) -> Self {
        let tensors = graph.tensors().iter().map(|tensor| DefAndUses {
            last_use: Point::UNUSED,
            last_inactive_use: Point::UNUSED,
            is_leaf: false,
            def: FIRST,
            unallocated: tensor.is_owned(),
            undefined: tensor.view.is_some() || !tensor.external,
        });
        Self {
            graph,
            inactive,
            tensors: tensors.collect(),
            leafs: Vec::new(),
            inputs: Vec::new(),
            uses_before_def: Vec::new(),
            early_writers: Vec::new(),
        }
    }

    fn visit_leafs(&mut self, buffers: &[BufferIndex]) {
        for (&leaf, &buffer) in self.graph.leafs().iter().zip(buffers) {
            self.tensors[leaf as usize].is_leaf = true;
            if self.tensors[leaf as usize].allocate() {
                self.leafs.push((leaf, buffer));
            }
        }
    }

    /// Finds the def and the last uses of each tensor.
    fn visit_nodes(&mut self, buffers: &[BufferIndex]) {
        for (step, (&node, &buffer)) in (0..).zip(self.graph.nodes().iter().zip(buffers)) {
            self.tensors[node as usize].def = point(step);
            if self.graph.tensor(node).op != Op::None {
                self.tensors[node as usize].undefined = false;
                if self.is_planned_view(node) && self.tensors[self.graph.root(node) as usize].undefined {
                    self.early_writers.push(node);
                }
            }
            self.allocate_input(node, buffer);
            let is_inactive = self.inactive.has(node);
            for &source in self.graph.sources(node) {
                let tensor = &mut self.tensors[source as usize];
                *(if is_inactive { &mut tensor.last_inactive_use } else { &mut tensor.last_use }) = point(step);
                if self.tensors[source as usize].undefined || source == node {
                    self.use_before_def(source, step, buffer);
                }
            }
        }
    }

    /// Records a use of a source that is in no list, or is computed at this step or later.
    fn use_before_def(&mut self, source: TensorId, step: Step, buffer: BufferIndex) {
        if self.is_input(source) {
            self.allocate_input(source, buffer);
        } else if self.uses_before_def.last() != Some(&step) {
            self.uses_before_def.push(step);
        }
    }

    fn allocate_input(&mut self, id: TensorId, buffer: BufferIndex) {
        if self.is_input(id) && self.tensors[id as usize].allocate() {
            self.inputs.push((id, buffer));
        }
    }

    fn is_input(&self, id: TensorId) -> bool {
        self.graph.tensor(id).flags.has(Flags::INPUT)
    }

    /// Returns `true` for a view of memory to plan.
    fn is_planned_view(&self, id: TensorId) -> bool {
        self.graph.tensor(id).view.is_some_and(|view| self.graph.tensor(view.root).is_owned())
    }

    /// Discounts views that write into memory before its owner is computed: they belong to its def, and are not uses.
    fn discount_early_writers(&mut self) {
        for &writer in &self.early_writers {
            if self.tensors[self.graph.root(writer) as usize].def > self.tensors[writer as usize].def {
                self.tensors[writer as usize].undefined = true;
            }
        }
    }

    /// Returns the last use of all memory, now that each tensor was visited.
    fn last_uses(&self) -> LastUses {
        let points = self.tensors.iter().map(DefAndUses::last_use).collect();
        let mut last_uses = LastUses { first: FIRST, points };
        let tensors = self.graph.tensors();
        for (last_use, tensor) in last_uses.points.iter_mut().zip(tensors) {
            if tensor.view.is_none() && tensor.flags.has(Flags::OUTPUT) {
                *last_use = Point::KEPT;
            }
        }
        for (id, tensor) in (0..).zip(tensors) {
            let Some(view) = tensor.view.filter(|_| !self.inactive.has(id)) else { continue };
            let DefAndUses { def, undefined, .. } = self.tensors[id as usize];
            let last_use = self.tensors[id as usize].last_use();
            let is_dead = last_use == Point::UNUSED && undefined && !tensor.flags.has(Flags::OUTPUT);
            if is_dead {
                continue;
            }
            last_uses.add_view([id, view.root], tensor, &tensors[view.root as usize]);
            // A view that is written after its last use may be read after the graph. One that computes nothing has its
            // value before its def: the scheduler copies such views at the start of the split that lists them.
            let is_computed = !tensor.op.is_view() || last_use == Point::UNUSED;
            if is_computed && def > last_use && tensors[view.root as usize].is_owned() {
                last_uses.points[view.root as usize] = Point::KEPT;
            }
        }
        // A tensor with uses only before its def may be read after the graph too.
        for &node in self.graph.nodes() {
            let last_use = &mut last_uses.points[node as usize];
            if *last_use != Point::UNUSED && *last_use < self.tensors[node as usize].def {
                *last_use = Point::KEPT;
            }
        }
        self.inactive.nodes().for_each(|node| last_uses.points[node as usize] = Point::INACTIVE);
        last_uses
    }
}

fn point(step: Step) -> Point {
    Point(FIRST.0 + step)
}

impl DefAndUses {
    /// Returns the last use, without regard to views. What only inactive nodes use stays until the last of them, but
    /// for a leaf, which is not needed beyond the first step.
    fn last_use(&self) -> Point {
        match (self.last_use, self.last_inactive_use) {
            (Point::UNUSED, Point::UNUSED) => Point::UNUSED,
            (Point::UNUSED, _) if self.is_leaf => FIRST,
            (Point::UNUSED, last) | (last, _) => last,
        }
    }

    /// Marks it as allocated from the start. Returns `true` if memory is planned for it, and it was not allocated
    /// before.
    fn allocate(&mut self) -> bool {
        let allocates = std::mem::take(&mut self.unallocated);
        self.undefined &= !allocates;
        allocates
    }
}
