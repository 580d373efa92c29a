//! The error of graphs that cannot be recomputed.

use std::fmt;

use crate::graph::{PlanError, TensorId};

/// Why a graph cannot be recomputed, whatever the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRecomputed {
    /// No node is flagged as a loss.
    NoLoss,
    /// No node follows the loss.
    NoBackward,
    /// The lists of leafs and nodes have a tensor twice.
    ListedTwice(TensorId),
    /// Sizes overflow.
    Plan(PlanError),
    /// The caller cancelled the search.
    Cancelled,
}

impl fmt::Display for NotRecomputed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLoss => write!(
                f,
                "the graph has no loss: recomputation is for training graphs, in which ggml_set_loss flags the loss and \
                 ggml_build_backward_expand adds the backward pass"
            ),
            Self::NoBackward => write!(
                f,
                "the graph has no backward pass: no node follows the loss; add it with ggml_build_backward_expand first"
            ),
            Self::ListedTwice(tensor) => write!(f, "the graph lists tensor {tensor} twice among its leafs and nodes"),
            Self::Plan(error) => write!(f, "{error}"),
            Self::Cancelled => write!(f, "the search was cancelled by its progress callback"),
        }
    }
}

impl std::error::Error for NotRecomputed {}
