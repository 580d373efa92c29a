//! Changes in words.

use std::fmt;

use super::sizes::human;
use super::{Change, TakenOver};

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Later { .. } => self.write_later(f),
            Self::Again { tensor, bytes, is_computed, last_read, next_read } => {
                let (bytes, verb) = (human(*bytes), if *is_computed { "compute" } else { "fill" });
                write!(
                    f,
                    "{tensor}, {bytes}, is read at {last_read}, and not again until {next_read}: \
                     let it go in between, and {verb} it anew"
                )
            }
            Self::NoOutput { tensor, bytes, needed_until } => write!(
                f,
                "{tensor} is an output, and keeps {} to the end, though the graph needs it until {needed_until} only: \
                 read it then, and do not flag it",
                human(*bytes)
            ),
            Self::LeaveOut { tensor, bytes, with, is_passed_over } => {
                let bytes = human(*bytes);
                write!(f, "nobody reads {tensor}, {bytes}, and it is no output")?;
                if *is_passed_over {
                    write!(f, ", nor is it flagged to be computed")?;
                }
                write!(f, ": leave it out of the graph")?;
                write_with(f, *with)
            }
            Self::NoCopy { tensor, bytes, source } => {
                write!(f, "{tensor}, {}, is a copy of {source}: let those who read it read that", human(*bytes))
            }
            Self::RemoveCopies { copies } => {
                write!(
                    f,
                    "{} be made: call lastuse_graph_remove_copies",
                    counted(*copies, "copy need not", "copies need not")
                )
            }
            Self::Rule { rule, example } => write_rule(f, rule, example.as_ref()),
            Self::AllRules => {
                write!(f, "all rules of sharing memory are right where ggml's CPU backend computes: switch them on")
            }
            Self::Reorder { moved } => {
                let nodes = counted(*moved, "node moves", "nodes move");
                write!(f, "there is a better order, for which {nodes}: call lastuse_graph_reorder")
            }
        }
    }
}

impl Change {
    fn write_later(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Later { tensor, bytes, made, first_read, with } = self else { return Ok(()) };
        let bytes = human(*bytes);
        let Some(made) = made else {
            return write!(
                f,
                "{tensor}, {bytes}, has memory from the start, and is first read at {first_read}: make it right before that"
            );
        };
        write!(
            f,
            "{tensor}, {bytes}, is made at step {made}, and first read at {first_read}: compute it right before that"
        )?;
        write_with(f, *with)
    }
}

/// The nodes that go with one.
fn write_with(f: &mut fmt::Formatter<'_>, with: usize) -> fmt::Result {
    match with {
        0 => Ok(()),
        with => write!(f, ", with the {} only it needs", counted(with, "node that", "nodes that")),
    }
}

fn write_rule(f: &mut fmt::Formatter<'_>, rule: &str, example: Option<&TakenOver>) -> fmt::Result {
    write!(f, "the rule {rule:?} is switched off, and right where ggml's CPU backend computes")?;
    match example {
        None => Ok(()),
        Some(TakenOver { tensor, bytes, memory_of, .. }) => {
            write!(f, ": with it {tensor}, {}, is computed in the memory of {memory_of}", human(*bytes))
        }
    }
}

/// "1 node", "2 nodes".
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
