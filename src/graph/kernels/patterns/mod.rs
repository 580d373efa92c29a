//! The sequences of operations that backends compute by one kernel, in the order in which they look for them.

mod cuda;
mod vulkan;

use crate::graph::{Device, Op, TensorId};

use super::nodes::Nodes;

/// A sequence of operations that a backend computes by one kernel.
pub struct Pattern {
    /// The operations, in the order of execution.
    pub ops: &'static [Op],
    /// How they depend on each other.
    pub links: Links,
    /// The nodes, as bits, whose sources may have the memory of a result, if exactly that.
    pub exact_aliases: u16,
    /// A node before the last one whose result is written too.
    pub also_written: Option<usize>,
    /// Whether a SCALE right behind belongs to it.
    pub takes_scale: bool,
    /// Further conditions on the sequence that begins at a position.
    pub condition: Condition,
}

/// A condition on a sequence.
pub type Condition = fn(&Candidate<'_>) -> bool;

/// Nodes that may be a sequence.
pub struct Candidate<'a> {
    /// The nodes that the device computes in a row.
    pub nodes: &'a Nodes<'a>,
    /// The position of the first one of the sequence.
    pub first: usize,
    /// The number of nodes in the sequence.
    pub len: usize,
}

impl Candidate<'_> {
    /// Returns the node at a position in the sequence.
    pub fn id(&self, at: usize) -> TensorId {
        self.nodes.ids[self.first + at]
    }

    /// Returns a source of the node at a position in the sequence, by its slot.
    pub fn source(&self, at: usize, slot: usize) -> Option<TensorId> {
        self.nodes.sources(self.first + at).get(slot).copied()
    }

    /// Returns the number of sources of the node at a position in the sequence.
    pub fn sources(&self, at: usize) -> usize {
        self.nodes.sources(self.first + at).len()
    }

    /// Returns the operand of the node at a position that is not the result before it.
    pub fn operand(&self, at: usize) -> Option<TensorId> {
        let before = self.id(at - 1);
        self.nodes.sources(self.first + at).iter().take(2).copied().find(|&source| source != before)
    }

    /// Returns `true` if the node at a position in the sequence has this description of ggml.
    pub fn is(&self, at: usize, desc: &str) -> bool {
        self.nodes.is(self.first + at, desc)
    }
}

/// How the nodes of a sequence depend on each other.
pub enum Links {
    /// Each reads the one before it as its first or second source, alone, and has its shape.
    Chain,
    /// User, slot and source of each; nothing outside reads the results that are not written.
    Edges(&'static [[usize; 3]]),
}

/// Every source may have the memory of a result.
const ALL: u16 = u16::MAX;

/// A sequence of nodes that each read the one before.
const fn chain(ops: &'static [Op], exact_aliases: u16, condition: Condition) -> Pattern {
    Pattern { ops, links: Links::Chain, exact_aliases, also_written: None, takes_scale: false, condition }
}

/// A sequence with these dependencies, whose sources must not have the memory of its result.
const fn edges(ops: &'static [Op], edges: &'static [[usize; 3]], condition: Condition) -> Pattern {
    Pattern { ops, links: Links::Edges(edges), exact_aliases: 0, also_written: None, takes_scale: false, condition }
}

/// Returns the sequences that the backend of a device fuses only if their addresses allow it.
pub fn patterns(device: Device) -> &'static [Pattern] {
    match device {
        Device::Vulkan => &vulkan::PATTERNS,
        Device::Cuda => &cuda::PATTERNS,
        _ => &[],
    }
}

/// Returns `true` if kernels of the device run side by side until one waits for others.
pub fn has_barriers(device: Device) -> bool {
    device == Device::Vulkan
}
