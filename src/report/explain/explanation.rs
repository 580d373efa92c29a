//! The explanation as plain data.

use crate::graph::kernels::KernelCosts;
use crate::placement::{Bytes, Step};

use super::change::Change;
use super::named::{Alias, Named, Node, Shape, Source};
use super::program::Program;
use super::remedies::{Remedies, Tiled};
use super::uses::Kept;

/// Why a graph needs its memory.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Explanation {
    /// The label of the graph.
    pub label: String,
    /// The program that built it, where its names tell.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub program: Option<Program>,
    /// The number of nodes; step `i` runs the `i`-th, counted from 0.
    pub nodes: usize,
    /// True if every change was tried; false if [`PlannedGraph::trials`](super::PlannedGraph::trials) was too low.
    pub all_tried: bool,
    /// The smallest graph with tiling, if it takes at least a twentieth less.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub tiling: Option<Tiled>,
    /// By buffer.
    pub buffers: Vec<BufferExplanation>,
}

/// Why a buffer has its size.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BufferExplanation {
    /// The index of the buffer.
    pub id: usize,
    /// The name of its buffer type.
    pub name: String,
    /// Bytes of the plan.
    pub size: Bytes,
    /// The number of chunks.
    pub chunks: usize,
    /// Live bytes at the peak. No plan with these live ranges is smaller.
    pub lower_bound: Bytes,
    /// `size` minus `lower_bound`: bytes lost to the placement of tensors, not to their sizes and live ranges.
    pub fragmentation: Bytes,
    /// True if the plan is proven to be the smallest with these live ranges.
    pub optimal: bool,
    /// Bytes that ggml-alloc needs; `None` if the sum of the tensors overflows.
    pub ggml_alloc: Option<Bytes>,
    /// The peak; `None` if the buffer is empty.
    pub peak: Option<Peak>,
    /// The largest tensors of the peak, and the remedies for them.
    pub remedies: Remedies,
    /// Memory saved by sharing.
    pub reuse: Reuse,
    /// The cost of the addresses on the device of the buffer; `None` where that is not known, or nothing.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub kernels: Option<KernelUse>,
    /// Single changes that lower the bound, the best first.
    pub advice: Vec<Advice>,
    /// If no single change lowers the bound: the one that comes closest, and the step that prevents it.
    pub limit: Option<Limit>,
}

/// The step with the most live bytes.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Peak {
    /// The first such step.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub node: Node,
    /// Live bytes.
    pub bytes: Bytes,
    /// The other steps with the same number of live bytes, as runs: the first and the last step of each.
    pub as_high: Vec<(Step, Step)>,
    /// The live blocks, the largest first. Their bytes add up to those of the peak.
    #[cfg_attr(feature = "serde", serde(rename = "alive"))]
    pub live: Vec<LiveBlock>,
}

/// A block of memory that is live at the peak.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LiveBlock {
    /// Bytes, padded to the alignment of the buffer.
    pub bytes: Bytes,
    /// The tensors that are live in it at that step: one, or several that share it.
    pub tensors: Vec<LiveTensor>,
    /// A later CONCAT whose operands are already computed in its memory.
    pub room_for: Option<Named>,
}

/// A tensor that is live at the peak.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LiveTensor {
    /// The tensor.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub tensor: Named,
    /// Its element type and extents.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub shape: Shape,
    /// Its sources, each once.
    pub sources: Vec<Source>,
    /// Bytes, padded to the alignment of the buffer.
    pub bytes: Bytes,
    /// The step that defines it; `None` if it is live from the start.
    #[cfg_attr(feature = "serde", serde(rename = "made"))]
    pub def: Option<Node>,
    /// The last step that uses it or a view of it.
    #[cfg_attr(feature = "serde", serde(rename = "last_read"))]
    pub last_use: Option<Node>,
    /// Why it stays live after its last use.
    pub kept: Option<Kept>,
    /// The node until which it, or a view of it, is retained; `None` if it is not, or to the end.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub retained_until: Option<Node>,
}

/// Memory saved by sharing.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Reuse {
    /// Results computed in place, the largest first.
    pub in_place: Vec<Alias>,
    /// Operands computed inside the result of a CONCAT, the largest first.
    pub inside_concat: Vec<Alias>,
    /// Inputs without a use, whose memory is free once the graph starts; the largest first.
    pub unread_inputs: Vec<FreedInput>,
    /// Nodes that no backend computes, which have no own memory, and leafs that only they read, whose memory is free
    /// once the graph starts; the largest first.
    pub inactive: Vec<FreedInput>,
    /// Bytes of all these tensors together.
    pub bytes: Bytes,
    /// The lower bound without any of this; `None` if the sum of the tensors overflows.
    pub lower_bound_without: Option<Bytes>,
}

/// A tensor whose memory is free early.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FreedInput {
    /// The tensor.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub tensor: Named,
    /// Its bytes, padded.
    pub bytes: Bytes,
}

/// A single change that lowers the bound of a buffer.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Advice {
    /// Bytes by which it lowers the bound.
    pub saves: Bytes,
    /// The bound with the change.
    pub lower_bound: Bytes,
    /// The peak with the change.
    #[cfg_attr(feature = "serde", serde(rename = "worst"))]
    pub peak: Node,
    /// The change.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub change: Change,
}

/// Why no single change lowers the bound of a buffer.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Limit {
    /// Bytes by which the change lowers the given peak.
    pub frees: Bytes,
    /// The step that still needs as much.
    #[cfg_attr(feature = "serde", serde(rename = "worst"))]
    pub peak: Node,
    /// Live bytes there.
    pub lower_bound: Bytes,
    /// The change.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub change: Change,
}

/// Fused kernels and barriers of a device, replayed as its backend decides on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct KernelUse {
    /// With the plan.
    pub planned: KernelCosts,
    /// With the plan of ggml-alloc; `None` if the sum of the tensors overflows.
    pub ggml_alloc: Option<KernelCosts>,
    /// If each tensor had its own memory: no placement costs less.
    pub without_reuse: KernelCosts,
}
