//! The error of graphs that cannot be tiled.

use std::fmt;

use crate::graph::{PlanError, TensorId};

/// Why a graph cannot be tiled, whatever the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTiled {
    /// The lists of leafs and nodes have a tensor twice.
    ListedTwice(TensorId),
    /// Sizes overflow.
    Plan(PlanError),
    /// The caller cancelled the search.
    Cancelled,
}

impl fmt::Display for NotTiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ListedTwice(tensor) => write!(f, "the graph lists tensor {tensor} twice among its leafs and nodes"),
            Self::Plan(error) => write!(f, "{error}"),
            Self::Cancelled => write!(f, "the search was cancelled by its progress callback"),
        }
    }
}

impl std::error::Error for NotTiled {}
