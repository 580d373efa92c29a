//! What goes wrong when a graph runs on a plan.

use std::fmt;

use crate::graph::{Graph, TensorId};
use crate::placement::Step;

use super::Region;

/// What goes wrong when a graph runs on a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// A tensor reaches beyond the end of its chunk.
    OutOfChunk(TensorId),
    /// A tensor that is needed has no memory.
    NoMemory(TensorId),
    /// Two values that must both be there before the first step share bytes.
    SharedStart {
        /// The one.
        first: TensorId,
        /// The other.
        second: TensorId,
    },
    /// A node reads a value that somebody has overwritten.
    Overwritten {
        /// The step that reads.
        step: Step,
        /// Whose value is wanted.
        wanted: TensorId,
        /// Whose value, if any, is there.
        found: Option<TensorId>,
    },
    /// A node overwrites a source while it still reads it.
    OverwritesSource {
        /// The step.
        step: Step,
        /// The source.
        source: TensorId,
    },
    /// A result is gone when the graph has run.
    LostResult {
        /// Whose value is wanted.
        wanted: TensorId,
        /// Whose value, if any, is there.
        found: Option<TensorId>,
    },
}

/// A corruption, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What goes wrong.
    pub corruption: Corruption,
    /// The first bytes that it is about: those that two tensors share, or that reach beyond the end. `None` when a tensor
    /// has no memory.
    pub bytes: Option<Region>,
}

impl Corruption {
    /// The tensors that it is about: first the one that is harmed.
    pub fn tensors(self, graph: &Graph) -> impl Iterator<Item = TensorId> {
        let node = |step: Step| graph.nodes().get(step as usize).copied();
        let (harmed, other, reader) = match self {
            Self::OutOfChunk(id) | Self::NoMemory(id) => (id, None, None),
            Self::SharedStart { first, second } => (first, Some(second), None),
            Self::Overwritten { step, wanted, found } => (wanted, found, node(step)),
            Self::OverwritesSource { step, source } => (source, node(step), None),
            Self::LostResult { wanted, found } => (wanted, found, None),
        };
        [Some(harmed), other, reader].into_iter().flatten()
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfChunk(tensor) => write!(f, "tensor {tensor} reaches beyond its chunk"),
            Self::NoMemory(tensor) => write!(f, "tensor {tensor} is needed and has no memory"),
            Self::SharedStart { first, second } => {
                write!(f, "tensors {first} and {second} share bytes before the first step")
            }
            Self::Overwritten { step, wanted, found } => {
                write!(f, "step {step} reads tensor {wanted}, but there is {found:?}")
            }
            Self::OverwritesSource { step, source } => write!(f, "step {step} overwrites its source {source}"),
            Self::LostResult { wanted, found } => write!(f, "at the end {wanted} is wanted, but there is {found:?}"),
        }
    }
}
