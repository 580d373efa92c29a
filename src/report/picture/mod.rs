//! Draws memory over time: as SVG for documents, or as an HTML page to explore.
//!
//! ```text
//!  offset  ^  +------+              each rectangle is a tensor, from its def to its last use, as high as its bytes;
//!          |  |  a  >|  b   |       b is computed in place of a, which has a mark.
//!          +--+------+------+--> step
//!   live      ____-----____         below, on the same time axis: the live bytes, and the lower bound
//! ```
//!
//! A [`PlanView`] becomes a scene (rectangles and curves, without pixels), which [`svg()`] and [`html()`] draw.

mod kinds;
mod scene;
mod graphs;
mod units;
mod html;
mod svg;
#[cfg(test)]
mod tests;

use crate::graph::GraphPlan;
use crate::graph::snapshot::Snapshot;
use crate::offload::accounting::Accounting;

pub use html::html;
pub use svg::svg;

/// A plan to draw. Consecutive views with the same snapshot (by address) are plans of one graph: they are drawn side by side,
/// on the same scale.
#[derive(Clone, Copy, Debug)]
pub struct PlanView<'a> {
    /// The name of the planner: "ggml-alloc", "lastuse".
    pub label: &'a str,
    /// The graph.
    pub snapshot: &'a Snapshot,
    /// The plan.
    pub plan: &'a GraphPlan,
}

/// The colour scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Follows the reader's system.
    #[default]
    Auto,
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// Options for a picture.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The title; if absent, the labels of the graphs.
    pub title: Option<&'a str>,
    /// The colour scheme.
    pub theme: Theme,
    /// The name of the only buffer to draw; if absent, all are drawn.
    pub buffer: Option<&'a str>,
    /// The memory of the devices, by process: a part of the page.
    pub accountings: &'a [&'a Accounting],
    /// True if the page, of two graphs, shows at first what became of the first one.
    pub compared: bool,
}
