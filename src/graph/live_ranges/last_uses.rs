//! The last uses of all tensors, and the first pass that finds them in nearly all graphs.

use crate::graph::{BufferIndex, Flags, Graph, Op, Requests, Tensor, TensorId, id_of};
use crate::placement::{self, Block, Problem, Step};

use super::inactive::{InactiveNodes, KnownUses};
use super::{Allocation, InactiveNode};

/// The result of the first pass over a graph.
pub struct FirstPass {
    /// The leafs to allocate, and their buffers.
    pub leafs: Vec<(TensorId, BufferIndex)>,
    /// The inputs to allocate that are not leafs, and their buffers.
    pub inputs: Vec<(TensorId, BufferIndex)>,
    /// By tensor, its last use.
    pub last_uses: LastUses,
    /// The steps, in order, that use a source before its def.
    pub uses_before_def: Vec<Step>,
    /// The inactive nodes.
    pub inactive: InactiveNodes,
}

/// A program point: a step as a number. Each step has one more than the step before.
///
/// The extreme values mean no step. They are not an `Option`, so that last uses are computed by `max` alone, and points
/// can be the ids of nodes where these count steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point(pub u32);

impl Point {
    /// The last use of an unused tensor; before every step.
    pub const UNUSED: Self = Self(0);
    /// The last use of what must be kept to the end.
    pub const KEPT: Self = Self(u32::MAX);
    /// Marks an inactive node, which has no memory.
    pub const INACTIVE: Self = Self(u32::MAX - 1);
}

/// By tensor, the last use of its memory.
pub struct LastUses {
    /// The point of the first step, which is not 0.
    pub first: Point,
    /// By tensor. For the owner of memory to plan, the last step that uses it or a view of it: its block may end there.
    /// For a view of such memory, the last step that uses the view; a block ends at no other points. For external
    /// memory, any point.
    pub points: Vec<Point>,
}

impl LastUses {
    /// Returns `true` if no step uses this memory, nor may the caller use it after the graph.
    pub fn is_unused(&self, root: TensorId) -> bool {
        self.points[root as usize] == Point::UNUSED
    }

    /// Returns `true` for an inactive node.
    #[inline]
    pub fn is_inactive(&self, tensor: TensorId) -> bool {
        self.points[tensor as usize] == Point::INACTIVE
    }

    /// Returns the point of a step.
    #[inline]
    pub fn point(&self, step: Step) -> Point {
        Point(self.first.0 + step)
    }

    /// Returns the step of the last use of this memory; where there is none, a number that no step of a graph reaches.
    #[inline]
    pub fn last_step(&self, root: TensorId) -> Step {
        self.step(self.points[root as usize])
    }

    /// Returns the step of a point; a number that no step of a graph reaches for `UNUSED` and `KEPT`.
    #[inline]
    pub fn step(&self, point: Point) -> Step {
        // Both are farther from the first point than any step is.
        point.0.wrapping_sub(self.first.0)
    }

    /// Extends the live range of a view's root to the last use of the view, which must be final. An unused view may be
    /// read after the graph.
    #[inline]
    pub fn add_view(&mut self, [view, root]: [TensorId; 2], view_tensor: &Tensor, root_tensor: &Tensor) {
        let last_use = &mut self.points[view as usize];
        if !root_tensor.is_owned() {
            *last_use = Point::UNUSED;
            return;
        }
        let is_kept = *last_use == Point::UNUSED || view_tensor.flags.has(Flags::OUTPUT);
        let end = if is_kept { Point::KEPT } else { *last_use };
        let root = &mut self.points[root as usize];
        *root = end.max(*root);
    }
}

/// Lists that planning fills. Contents are discarded; capacity is reused: `malloc` takes a good part of the time for a
/// small graph.
#[derive(Debug, Default)]
pub struct Workspace {
    /// By tensor, its last use.
    pub points: Vec<Point>,
    /// The leafs to allocate.
    pub leafs: Vec<(TensorId, BufferIndex)>,
    /// By tensor.
    pub allocations: Vec<Option<Allocation>>,
    /// The inactive nodes.
    pub inactive: Vec<TensorId>,
    /// The inactive nodes that own memory.
    pub inactive_owners: Vec<InactiveNode>,
    /// The blocks of one buffer.
    pub blocks: Vec<Block>,
    /// For placing them.
    pub placement: placement::Workspace,
}

impl Workspace {
    /// Takes the memory of placement problems that are not needed any more.
    pub fn reuse_problems(&mut self, problems: Vec<Problem>) {
        if let Some(problem) = problems.into_iter().next() {
            self.blocks = problem.into_blocks();
        }
    }
}

/// Runs the first pass over a graph in which every tensor comes after those that it refers to, as in nearly all: the
/// last users recorded with the sources are the last uses, and program points are the ids of nodes. `consecutive` are
/// the nodes if their ids are consecutive, `candidates` may be inactive. Returns `None` unless the first tensors are
/// the leafs, which refer to nothing, and the others the nodes in their order, which refer to tensors before them or
/// themselves.
pub fn in_order(
    workspace: &mut Workspace,
    graph: &Graph,
    consecutive: Option<&[Tensor]>,
    requests: Requests<'_>,
    candidates: &[(Step, TensorId)],
) -> Option<FirstPass> {
    let (leafs, _) = graph.tensors().split_at_checked(graph.leafs().len())?;
    let nodes = consecutive?;
    let first = id_of(leafs.len());
    let is_listed = !leafs.is_empty()
        && graph.tensors().len() == leafs.len() + nodes.len()
        && graph.nodes().first() == Some(&first)
        && are_consecutive(graph.leafs(), 0)
        && graph.have_no_sources(leafs.len());
    let last_users = graph.last_users()?.get(..graph.tensors().len())?;
    if !is_listed {
        return None;
    }
    let mut points = std::mem::take(&mut workspace.points);
    points.clear();
    points.extend(last_users.iter().copied().map(Point));
    let mut last_uses = LastUses { first: Point(first), points };
    let inactive = skip_inactive(graph, &mut last_uses, candidates);
    let leafs = owned_leafs(std::mem::take(&mut workspace.leafs), leafs, requests.leafs, &mut last_uses)?;
    let inputs = extend_roots(nodes, graph.tensors(), requests.nodes, &mut last_uses)?;
    let uses_before_def = graph.self_users().iter().filter_map(|user| user.checked_sub(first)).collect();
    Some(FirstPass { leafs, inputs, last_uses, uses_before_def, inactive })
}

/// Finds the inactive nodes, and moves the last uses of their sources to active nodes. A leaf that only inactive nodes
/// use is not needed beyond the first step; what else only they use stays until the last of them.
fn skip_inactive(graph: &Graph, last_uses: &mut LastUses, candidates: &[(Step, TensorId)]) -> InactiveNodes {
    let Some(&(last, _)) = candidates.last() else { return InactiveNodes::default() };
    let uses = KnownUses {
        is_used: |id| last_uses.points[id as usize] != Point::UNUSED,
        is_used_after: |id| last_uses.points[id as usize] > last_uses.point(last),
    };
    let inactive = InactiveNodes::find(graph, candidates, last + 1, &uses);
    // Points are ids of nodes. Going back, the first active user of a source whose last use is inactive becomes its
    // last use.
    for &node in graph.nodes()[..=last as usize].iter().rev().filter(|&&node| !inactive.has(node)) {
        for &source in graph.sources(node) {
            let last_use = &mut last_uses.points[source as usize];
            if inactive.has(last_use.0) {
                *last_use = Point(node);
            }
        }
    }
    for &leaf in inactive.nodes().flat_map(|node| graph.sources(node)).filter(|&&source| source < last_uses.first.0) {
        let last_use = &mut last_uses.points[leaf as usize];
        if inactive.has(last_use.0) {
            *last_use = last_uses.first;
        }
    }
    inactive.nodes().for_each(|node| last_uses.points[node as usize] = Point::INACTIVE);
    inactive
}

/// Returns the leafs to allocate, in the memory of `owned`, and keeps outputs. `None` if a leaf is a view.
#[inline(never)]
fn owned_leafs(
    mut owned: Vec<(TensorId, BufferIndex)>,
    leafs: &[Tensor],
    buffers: &[BufferIndex],
    last_uses: &mut LastUses,
) -> Option<Vec<(TensorId, BufferIndex)>> {
    owned.clear();
    for (id, (leaf, last_use)) in (0..).zip(leafs.iter().zip(&mut last_uses.points)) {
        if leaf.view.is_some() {
            return None;
        }
        if leaf.external {
            // So that no node that uses it is searched for in-place sources.
            *last_use = Point::UNUSED;
            continue;
        }
        if leaf.flags.has(Flags::OUTPUT) {
            *last_use = Point::KEPT;
        }
        owned.push((id, buffers[id as usize]));
    }
    Some(owned)
}

/// Extends the live ranges of roots to those of their views, keeps outputs, and returns the nodes that are inputs.
/// `None` if a view comes before its root or is a no-op.
#[inline(never)]
fn extend_roots(
    nodes: &[Tensor],
    tensors: &[Tensor],
    buffers: &[BufferIndex],
    last_uses: &mut LastUses,
) -> Option<Vec<(TensorId, BufferIndex)>> {
    let first = last_uses.first.0;
    let mut inputs = Vec::new();
    for (step, node) in (0..).zip(nodes) {
        let id = first + step;
        if let Some(view) = node.view {
            if last_uses.is_inactive(id) {
                continue; // It keeps no memory.
            }
            if view.root >= id || node.op == Op::None {
                return None;
            }
            last_uses.add_view([id, view.root], node, &tensors[view.root as usize]);
        } else if node.flags.has(Flags::INPUT) || node.flags.has(Flags::OUTPUT) {
            // Such a node is never inactive.
            if node.flags.has(Flags::OUTPUT) {
                last_uses.points[id as usize] = Point::KEPT;
            }
            if node.flags.has(Flags::INPUT) && !node.external {
                inputs.push((id, buffers[step as usize]));
            }
        }
    }
    Some(inputs)
}

/// Returns the nodes of `graph` if their ids are consecutive.
pub fn consecutive_nodes(graph: &Graph) -> Option<&[Tensor]> {
    let &first = graph.nodes().first()?;
    let nodes = graph.tensors().get(first as usize..)?.get(..graph.nodes().len())?;
    are_consecutive(graph.nodes(), first).then_some(nodes)
}

/// Returns `true` if `ids` count up from `first`. Compares all, which is faster than to stop at the first that differs.
fn are_consecutive(ids: &[TensorId], first: TensorId) -> bool {
    (first..).zip(ids).fold(0, |differences, (expected, &id)| differences | (expected ^ id)) == 0
}

/// Extends the live ranges of the memory of retained tensors: to the step that ends the retention, or to the end.
/// Inactive nodes are never computed, so there is nothing to retain.
#[cold]
pub fn extend_retained(graph: &Graph, last_uses: &mut LastUses) {
    for (tensor, until) in graph.retained() {
        let root = graph.root(tensor);
        let is_planned = graph.tensor(root).is_owned();
        if !is_planned || last_uses.is_inactive(tensor) || last_uses.is_inactive(root) {
            continue;
        }
        let end = until.map_or(Point::KEPT, |step| last_uses.point(step));
        let last_use = &mut last_uses.points[root as usize];
        // Unused results may be read after the graph, retained or not.
        *last_use = if *last_use == Point::UNUSED { Point::KEPT } else { end.max(*last_use) };
    }
}
