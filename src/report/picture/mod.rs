//! Pictures of memory over time: SVG for documents, one HTML page to explore.
//!
//! ```text
//!  offset  ^  +------+              each rectangle is a tensor: from the step that makes it to the last that reads it,
//!          |  |  a  >|  b   |       as high as its bytes; where b takes over the memory of a there is a mark.
//!          +--+------+------+--> step
//!   live      ____-----____         below, on the same time axis: the bytes alive, and the lower bound
//! ```
//!
//! The way of a plan: [`View`] -> a scene (rectangles and curves, no pixels yet) -> [`svg()`] or [`html()`].

mod graphs;
mod html;
mod kinds;
mod scene;
mod svg;
#[cfg(test)]
mod tests;
mod units;
mod xml;

use crate::graph::GraphPlan;
use crate::graph::snapshot::Snapshot;

pub use html::html;
pub use svg::svg;

/// A plan to be drawn. Views that follow one another with the same snapshot (the same place in memory) are plans of one
/// graph: they are drawn beside one another, on the same scale.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Whose plan it is, in a word or two: "ggml-alloc", "lastuse".
    pub label: &'a str,
    /// The graph.
    pub snapshot: &'a Snapshot,
    /// Where its tensors lie.
    pub plan: &'a GraphPlan,
}

/// Light or dark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// As whoever looks at it prefers.
    #[default]
    Auto,
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// How to draw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// What is written above; the labels of the graphs when absent.
    pub title: Option<&'a str>,
    /// Light or dark.
    pub theme: Theme,
    /// The name of the only buffer to draw; all when absent.
    pub buffer: Option<&'a str>,
}
