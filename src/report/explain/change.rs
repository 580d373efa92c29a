//! Changes that may lower a peak.

use std::fmt;

use crate::placement::{Bytes, Step};
use crate::report::sizes::fixed;

use super::named::{Alias, Named, Node};

/// A change of a graph, or of how it is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "change", rename_all = "snake_case"))]
pub enum Change {
    /// Defines a tensor right before its first use, which comes long after its definition.
    Later {
        /// The tensor.
        tensor: Named,
        /// Its bytes, padded.
        bytes: Bytes,
        /// The step that defines it; `None` if it is live from the start.
        #[cfg_attr(feature = "serde", serde(rename = "made"))]
        def: Option<Step>,
        /// The first use.
        #[cfg_attr(feature = "serde", serde(rename = "first_read"))]
        first_use: Node,
        /// The number of nodes before it that move with it.
        with: usize,
    },
    /// Frees a tensor between two uses that are far apart, and computes or fills it again.
    Again {
        /// The tensor.
        tensor: Named,
        /// Its bytes, padded.
        bytes: Bytes,
        /// True if a node computes it, false if it is filled from outside.
        is_computed: bool,
        /// The last use before the peak.
        #[cfg_attr(feature = "serde", serde(rename = "last_read"))]
        last_use: Node,
        /// The first use after the peak.
        #[cfg_attr(feature = "serde", serde(rename = "next_read"))]
        next_use: Node,
    },
    /// Reads an output after its last use in the graph, and clears its flag, which keeps it live to the end.
    NoOutput {
        /// The tensor.
        tensor: Named,
        /// Bytes of the memory that it keeps live, padded.
        bytes: Bytes,
        /// The last step that needs it.
        needed_until: Node,
    },
    /// Reads a retained tensor after its last use in the graph, and retains it no longer.
    Release {
        /// The tensor.
        tensor: Named,
        /// Bytes of the memory that it keeps live, padded.
        bytes: Bytes,
        /// The last step that needs it.
        needed_until: Node,
    },
    /// Retains no tensors.
    ReleaseAll {
        /// The number of retained tensors.
        tensors: usize,
    },
    /// Removes a tensor that has no use and is not an output.
    LeaveOut {
        /// The tensor.
        tensor: Named,
        /// Its bytes, padded.
        bytes: Bytes,
        /// The number of other nodes that only it needs.
        with: usize,
        /// True if backends skip it: an alternative that was not selected (`ggml_build_forward_select`).
        #[cfg_attr(feature = "serde", serde(rename = "is_passed_over"))]
        is_skipped: bool,
    },
    /// Replaces a copy by its source.
    NoCopy {
        /// The copy.
        tensor: Named,
        /// Its bytes, padded.
        bytes: Bytes,
        /// The source of the copy.
        source: Named,
    },
    /// Calls `lastuse_graph_remove_copies`.
    RemoveCopies {
        /// The number of copies that it removes.
        copies: usize,
    },
    /// Switches on a sharing rule.
    Rule {
        /// The name of the rule.
        rule: String,
        /// The largest tensor that then lies in the memory of another.
        example: Option<Alias>,
    },
    /// Switches on all sharing rules.
    AllRules,
    /// Calls `lastuse_graph_reorder`.
    Reorder {
        /// The number of nodes that move.
        moved: usize,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Later { tensor, bytes, def, first_use, with } => {
                write_later(f, &format!("{tensor}, {}", fixed(*bytes)), *def, first_use, *with)
            }
            Self::Again { tensor, bytes, is_computed, last_use, next_use } => {
                let (bytes, verb) = (fixed(*bytes), if *is_computed { "recompute" } else { "refill" });
                write!(
                    f,
                    "{tensor}, {bytes}, is used at {last_use}, and next at {next_use}: free it in between, and {verb} it"
                )
            }
            Self::NoOutput { tensor, bytes, needed_until } => write!(
                f,
                "{tensor} is an output, which keeps {} live to the end, but its last use is {needed_until}: \
                 read it then, and do not flag it",
                fixed(*bytes)
            ),
            Self::Release { tensor, bytes, needed_until } => write!(
                f,
                "{tensor} is retained, which keeps {} live, but its last use is {needed_until}: read it then, and retain \
                 it no longer than that (lastuse_tensor_retain)",
                fixed(*bytes)
            ),
            Self::ReleaseAll { tensors } => {
                let tensors = counted(*tensors, "tensor is", "tensors are");
                write!(f, "{tensors} retained: retain fewer (lastuse_tensor_release, LASTUSE_RETAIN)")
            }
            Self::LeaveOut { tensor, bytes, with, is_skipped } => {
                write!(f, "{tensor}, {}, is never used, and is not an output", fixed(*bytes))?;
                if *is_skipped {
                    write!(f, ", nor is it flagged to be computed")?;
                }
                write!(f, ": leave it out of the graph")?;
                write_with(f, *with)
            }
            Self::NoCopy { tensor, bytes, source } => {
                write!(f, "{tensor}, {}, is a copy of {source}: read {source} instead", fixed(*bytes))
            }
            Self::RemoveCopies { copies } => {
                let copies = counted(*copies, "copy is", "copies are");
                write!(f, "{copies} not needed: call lastuse_graph_remove_copies")
            }
            Self::Rule { rule, example } => write_rule(f, rule, example.as_ref()),
            Self::AllRules => write!(f, "switch on all sharing rules, which are valid on ggml's CPU backend"),
            Self::Reorder { moved } => {
                let nodes = counted(*moved, "node moves", "nodes move");
                write!(f, "there is a better order, for which {nodes}: call lastuse_graph_reorder")
            }
        }
    }
}

fn write_later(
    f: &mut fmt::Formatter<'_>,
    tensor: &str,
    def: Option<Step>,
    first_use: &Node,
    with: usize,
) -> fmt::Result {
    match def {
        None => {
            write!(f, "{tensor}, is live from the start, but its first use is {first_use}: fill it right before that")
        }
        Some(def) => {
            write!(
                f,
                "{tensor}, is computed at step {def}, but its first use is {first_use}: compute it right before that"
            )?;
            write_with(f, with)
        }
    }
}

/// Writes how many nodes change with a tensor.
fn write_with(f: &mut fmt::Formatter<'_>, with: usize) -> fmt::Result {
    match with {
        0 => Ok(()),
        with => write!(f, ", with the {} only it needs", counted(with, "node that", "nodes that")),
    }
}

fn write_rule(f: &mut fmt::Formatter<'_>, rule: &str, example: Option<&Alias>) -> fmt::Result {
    write!(f, "switch on the sharing rule {rule:?}, which is valid on ggml's CPU backend")?;
    match example {
        None => Ok(()),
        Some(Alias { tensor, bytes, memory_of, .. }) => {
            write!(f, ": it puts {tensor}, {}, in the memory of {memory_of}", fixed(*bytes))
        }
    }
}

/// Formats a count with its noun: "1 node", "2 nodes".
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
