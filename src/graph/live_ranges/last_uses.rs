//! The result of the first pass over a graph: last uses, and tensors that have memory from the start.

use crate::graph::{BufferIndex, Flags, Tensor, TensorId};
use crate::placement::Step;

use super::inactive::InactiveNodes;

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
