//! One tensor, as far as planning depends on it.

use crate::placement::Bytes;

use super::{InPlace, Op};

/// Dense index of a tensor in its graph.
pub type TensorId = u32;

/// ggml's tensor flags, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// Has memory from the start of the graph, disjoint from every other input.
    pub const INPUT: Self = Self(1);
    /// Never freed, never overwritten.
    pub const OUTPUT: Self = Self(2);
    /// A parameter: a value that training changes.
    pub const PARAM: Self = Self(4);
    /// A loss: the value that a training graph minimizes. The backward pass follows it.
    pub const LOSS: Self = Self(8);
    /// Filled or read from outside the graph: input, output, parameter (4) or loss.
    pub const NEVER_RECOMPUTED: Self = Self(1 | 2 | 4 | 8);
    /// To be computed. Where a version of ggml knows this flag, backends skip nodes that do not have it.
    pub const COMPUTE: Self = Self(16);

    /// Returns `true` if any flag of `flags` is set.
    pub fn has(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }
}

/// A tensor that aliases the memory of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The owner of the memory; never a view itself.
    pub root: TensorId,
    /// Bytes from the start of the root.
    pub offset: Bytes,
}

/// The facts about one tensor that the planner needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Input, output and so on.
    pub flags: Flags,
    /// Set for a view.
    pub view: Option<View>,
    /// How it is computed. One byte, as long as `Tensor` has padding: reading a graph writes one of each tensor.
    pub op: Op,
    /// Which sources it may write over: by `op`, and by what the version of ggml lists.
    pub in_place: InPlace,
    /// Has memory already: never planned.
    pub external: bool,
}

impl Default for Tensor {
    fn default() -> Self {
        Self::new()
    }
}

impl Tensor {
    /// Creates a no-op tensor without a view or flags.
    pub fn new() -> Self {
        Self { flags: Flags::default(), view: None, op: Op::None, in_place: InPlace::Never, external: false }
    }

    /// Returns `true` for a no-op tensor (op NONE): a leaf, or a control dependency among the nodes.
    pub fn is_marker(&self) -> bool {
        self.op == Op::None
    }

    /// Replaces its operation by one that writes over no source.
    pub fn set_op(&mut self, op: Op) {
        (self.op, self.in_place) = (op, InPlace::Never);
    }

    /// Returns `true` if memory is to be planned for it.
    pub fn is_owned(&self) -> bool {
        self.view.is_none() && !self.external
    }
}
