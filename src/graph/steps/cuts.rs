//! Cuts as ranges of nodes.

use std::fmt;
use std::ops::Range;

use crate::placement::Step;

/// Why a graph cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutError {
    /// The graph has no nodes.
    EmptyGraph,
    /// No parts are requested.
    NoParts,
    /// There are more parts than nodes.
    TooManyParts {
        /// Parts that were requested.
        parts: usize,
        /// Nodes of the graph.
        nodes: usize,
    },
    /// A cut is at the last node, or beyond it.
    AtEnd {
        /// The position of the cut among the cuts.
        cut: usize,
    },
    /// A cut is the same as the one before it.
    Repeated {
        /// The position of the cut among the cuts.
        cut: usize,
    },
    /// A cut is at an earlier node than the one before it.
    Unordered {
        /// The position of the cut among the cuts.
        cut: usize,
    },
}

impl fmt::Display for CutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyGraph => write!(f, "the graph has no nodes"),
            Self::NoParts => write!(f, "a graph cannot be computed in 0 steps; 1 or more are needed"),
            Self::TooManyParts { parts, nodes } => {
                write!(f, "the graph has {nodes} nodes, which are fewer than the {parts} steps")
            }
            Self::AtEnd { cut } => {
                write!(f, "cut {cut} is after the last node, where nothing is left to be computed")
            }
            Self::Repeated { cut } => write!(f, "cut {cut} is at the same node as cut {}", cut - 1),
            Self::Unordered { cut } => write!(
                f,
                "cut {cut} is at an earlier node than cut {}; cuts are given in the order in which the nodes run",
                cut - 1
            ),
        }
    }
}

/// Checks that a graph of `nodes` nodes can be cut into `parts` parts.
///
/// # Errors
/// [`CutError`].
pub fn check_parts(nodes: usize, parts: usize) -> Result<(), CutError> {
    match parts {
        _ if nodes == 0 => Err(CutError::EmptyGraph),
        0 => Err(CutError::NoParts),
        _ if parts > nodes => Err(CutError::TooManyParts { parts, nodes }),
        _ => Ok(()),
    }
}

/// Returns the parts of a graph of `nodes` nodes that is cut after each node of `cuts`.
///
/// # Errors
/// [`CutError`].
pub fn parts_of(nodes: usize, cuts: &[Step]) -> Result<Vec<Range<Step>>, CutError> {
    let end = Step::try_from(nodes).expect("fewer than 2^32 nodes");
    check_parts(nodes, 1)?;
    for (cut, &node) in cuts.iter().enumerate() {
        let before = cut.checked_sub(1).map(|before| cuts[before]);
        match before {
            Some(before) if node == before => return Err(CutError::Repeated { cut }),
            Some(before) if node < before => return Err(CutError::Unordered { cut }),
            _ if node >= end - 1 => return Err(CutError::AtEnd { cut }),
            _ => {}
        }
    }
    let starts = std::iter::once(0).chain(cuts.iter().map(|cut| cut + 1));
    let ends = cuts.iter().map(|cut| cut + 1).chain([end]);
    Ok(starts.zip(ends).map(|(start, end)| start..end).collect())
}
