//! Stepwise computation of a live graph: cut into tiles, of which each is planned, run and freed before the next.
//!
//! [`layout`] reads the graph, cuts it ([`crate::graph::steps`]) and sorts its tensors: those of one part, those that
//! cross cuts, and those that are kept. [`stored`] holds the memory of the last two. A part runs on a [`backend`] or
//! with a [`scheduler`]; [`stepwise`] runs one after the other.
//!
//! As in [`crate::graph::steps`], what the C interface calls a step is a part here.

mod error;
mod layout;
mod stored;
mod part;
mod backend;
mod scheduler;
mod stepwise;

pub use error::StepsError;
pub use layout::Cutting;
pub use stepwise::{AfterStep, Runner, StepwiseGraph};
