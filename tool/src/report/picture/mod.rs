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
mod style;
mod units;
mod html;
mod svg;
#[cfg(test)]
mod tests;

use lastuse::accounting::Accounting;
use lastuse::graph::GraphPlan;
use lastuse::graph::snapshot::Snapshot;
use scene::Scene;

pub use html::{html, html_data};
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
    /// True if the page follows a program that runs: it asks the server that it comes from.
    pub live: bool,
}

/// A graph and its plans.
struct DrawnGraph<'a> {
    snapshot: &'a Snapshot,
    scenes: Vec<Scene<'a>>,
    /// Its place among the graphs that were given, from 0.
    given: usize,
}

impl<'a> DrawnGraph<'a> {
    /// Groups views by graph, in their order.
    fn all(views: &[PlanView<'a>], options: &Options<'_>) -> Vec<Self> {
        let groups = views.chunk_by(|one, other| std::ptr::eq(one.snapshot, other.snapshot));
        let drawn = |(given, group): (usize, &[PlanView<'a>])| {
            let scenes = group.iter().map(|view| Scene::of(view, options.buffer)).collect();
            Some(Self { snapshot: group.first()?.snapshot, scenes, given })
        };
        groups.enumerate().filter_map(drawn).collect()
    }

    /// Returns the bytes of the largest plan.
    fn size(&self) -> u64 {
        self.scenes.iter().map(Scene::size).max().unwrap_or(0)
    }

    /// Returns the label of the graph.
    fn title(&self) -> &'a str {
        if self.snapshot.label.is_empty() { "Unnamed graph" } else { &self.snapshot.label }
    }
}
