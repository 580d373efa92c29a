//! What can be done about a peak, as plain data.

use crate::placement::Bytes;

use super::named::{Named, Node, Shape};

/// Facts about a peak besides its live tensors.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Remedies {
    /// The largest blocks, the largest first.
    pub largest: Vec<Large>,
    /// Tensors that grow with the number of tokens, if there is an input of tokens.
    pub batch: Option<Batch>,
    /// Bytes of the peak that are results of the forward pass, kept for the backward pass; 0 where nothing is trained.
    pub kept_for_backward: Bytes,
    /// The passes of lastuse that lower the peak, each alone; the one that lowers it most first.
    pub passes: Vec<Lowered>,
    /// Bytes that are live in every order, if they are most of the peak, and every pass was tried and lowers it by nothing.
    pub inherent: Option<Inherent>,
}

/// One of the largest blocks at a peak.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Large {
    /// The tensor that is live in it, the last one of several.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub tensor: Named,
    /// Its shape.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub shape: Shape,
    /// Bytes of the block at the peak.
    pub bytes: Bytes,
    /// Live bytes at the peak that there would be without the block.
    pub lower_bound_without: Bytes,
    /// That peak.
    pub peak_without: Node,
    /// Its kind, if known.
    pub pattern: Option<Pattern>,
}

/// The kind of a large tensor, where a remedy for it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Pattern {
    /// The scores of attention, before or after the softmax, for each query with each key.
    AttentionScores,
    /// The logits of several tokens, an output.
    Logits {
        /// The number of tokens.
        tokens: i64,
    },
    /// The columns of a convolution that is computed as a product of matrices.
    Columns,
    /// A result of the forward pass that the backward pass reads, after its first node.
    KeptForBackward {
        /// The first node of the backward pass.
        backward: Node,
    },
    /// An alternative that was not selected, and that no backend computes.
    NotComputed,
}

/// Tensors that grow with the number of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Batch {
    /// The number of tokens.
    pub tokens: i64,
    /// Bytes of the peak that grow with it.
    pub grows: Bytes,
    /// The lower bound with half as many tokens: tensors with an extent of their number have half the bytes.
    pub lower_bound_of_half: Bytes,
}

/// Bytes that are live when a node runs, in whatever order the nodes of the graph run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Inherent {
    /// The node, at its step in the given order.
    pub node: Node,
    /// Bytes of the node's sources and of its result.
    pub of_node: Bytes,
    /// Bytes of tensors that have a value before the node in every order, and are read after it in every order or kept
    /// to the end. Inputs that nodes read only later are not in it: they can be filled later.
    pub across: Bytes,
}

impl Inherent {
    /// Returns the live bytes that no order goes below.
    pub fn bytes(&self) -> Bytes {
        self.of_node + self.across
    }
}

/// What a pass saves at the peak of a buffer, alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Lowered {
    /// The pass.
    pub pass: Pass,
    /// Bytes by which it lowers the bound.
    pub saves: Bytes,
    /// The bound after the pass.
    pub lower_bound: Bytes,
}

/// A pass of lastuse: a change of the graph that leaves its results as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Pass {
    /// Computes large intermediates in tiles.
    Tiling,
    /// Computes results of the forward pass again in the backward pass.
    Recomputation,
    /// Puts the nodes into another order.
    Reorder,
    /// Removes copies into tensors that their producers can write to.
    RemoveCopies,
}

/// The smallest graph that was found with large intermediates in tiles.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Tiled {
    /// Bytes that it takes less than the plan, in all buffers.
    pub saves: Bytes,
    /// Bytes that it takes, in all buffers.
    pub size: Bytes,
    /// The largest tensor that is computed in tiles.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub tensor: Named,
    /// How many tiles it has.
    pub tiles: u32,
    /// How many other tensors are computed in tiles.
    pub others: usize,
}
