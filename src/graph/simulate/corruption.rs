//! Errors of a graph that runs on a plan.

use std::collections::HashSet;
use std::fmt;

use crate::graph::{Graph, Region, TensorId};
use crate::placement::Step;

/// Errors of a graph that runs on a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// A tensor reaches beyond the end of its chunk.
    OutOfChunk(TensorId),
    /// A tensor that is needed has no memory.
    NoMemory(TensorId),
    /// Two values that must both exist before the first step share bytes.
    SharedStart {
        /// One of them.
        first: TensorId,
        /// The other one.
        second: TensorId,
    },
    /// A node reads a value that was overwritten.
    Overwritten {
        /// The step that reads.
        step: Step,
        /// The tensor whose value is required.
        expected: TensorId,
        /// The tensor whose value is there instead, if any.
        found: Option<TensorId>,
    },
    /// A node overwrites a source while it still reads it.
    OverwritesSource {
        /// The step.
        step: Step,
        /// The source.
        source: TensorId,
    },
    /// A result is lost when the graph has run.
    LostResult {
        /// The tensor whose value is required.
        expected: TensorId,
        /// The tensor whose value is there instead, if any.
        found: Option<TensorId>,
    },
    /// A retained tensor is lost.
    LostRetained {
        /// The tensor whose value is required.
        expected: TensorId,
        /// The tensor whose value is there instead, if any.
        found: Option<TensorId>,
        /// The step until which it is retained; `None` if it is to the end.
        until: Option<Step>,
    },
}

/// A corruption, and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The error.
    pub corruption: Corruption,
    /// The first bytes that are affected: those that two tensors share, or that are beyond the end. `None` when a
    /// tensor has no memory.
    pub bytes: Option<Region>,
}

impl Corruption {
    /// Returns the tensors involved: first the one whose value is wrong.
    pub fn tensors(self, graph: &Graph) -> impl Iterator<Item = TensorId> {
        let node = |step: Step| graph.nodes().get(step as usize).copied();
        let (wrong, other, reader) = match self {
            Self::OutOfChunk(id) | Self::NoMemory(id) => (id, None, None),
            Self::SharedStart { first, second } => (first, Some(second), None),
            Self::Overwritten { step, expected, found } => (expected, found, node(step)),
            Self::OverwritesSource { step, source } => (source, node(step), None),
            Self::LostResult { expected, found } | Self::LostRetained { expected, found, until: None } => {
                (expected, found, None)
            }
            Self::LostRetained { expected, found, until: Some(step) } => (expected, found, node(step)),
        };
        [Some(wrong), other, reader].into_iter().flatten()
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
            Self::Overwritten { step, expected, found } => {
                write!(f, "step {step} reads tensor {expected}, but there is {found:?}")
            }
            Self::OverwritesSource { step, source } => write!(f, "step {step} overwrites its source {source}"),
            Self::LostResult { expected, found } => {
                write!(f, "at the end {expected} is required, but there is {found:?}")
            }
            Self::LostRetained { expected, found, until } => match until {
                Some(step) => write!(f, "step {step} ends the retention of {expected}, but there is {found:?}"),
                None => write!(f, "{expected} is retained to the end, but there is {found:?}"),
            },
        }
    }
}

/// The findings so far, each pair of tensors once.
pub struct Findings {
    pub list: Vec<Finding>,
    /// The pairs of tensors reported so far; the second may be missing.
    pairs: HashSet<(TensorId, Option<TensorId>)>,
    limit: usize,
}

impl Findings {
    pub fn new(limit: usize) -> Self {
        Self { list: Vec::new(), pairs: HashSet::new(), limit }
    }

    pub fn is_full(&self) -> bool {
        self.list.len() >= self.limit
    }

    /// Adds a finding about `tensor` and perhaps another, unless both were reported together.
    pub fn add(&mut self, corruption: Corruption, bytes: Option<Region>, tensor: TensorId, other: Option<TensorId>) {
        let pair = other.map_or((tensor, None), |other| (tensor.min(other), Some(tensor.max(other))));
        if !self.is_full() && self.pairs.insert(pair) {
            self.list.push(Finding { corruption, bytes });
        }
    }
}
