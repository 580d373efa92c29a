//! Graphs with all plans to draw.

use crate::graph::snapshot::Snapshot;

use super::scene::Scene;
use super::{Options, PlanView};

/// A graph and its plans.
pub struct DrawnGraph<'a> {
    pub snapshot: &'a Snapshot,
    pub scenes: Vec<Scene<'a>>,
    /// Its place among the graphs that were given, from 0.
    pub given: usize,
}

impl<'a> DrawnGraph<'a> {
    /// Groups views by graph, in their order.
    pub fn all(views: &[PlanView<'a>], options: &Options<'_>) -> Vec<Self> {
        let groups = views.chunk_by(|one, other| std::ptr::eq(one.snapshot, other.snapshot));
        let drawn = |(given, group): (usize, &[PlanView<'a>])| {
            Some(Self {
                snapshot: group.first()?.snapshot,
                scenes: group.iter().map(|view| Scene::of(view, options.buffer)).collect(),
                given,
            })
        };
        groups.enumerate().filter_map(drawn).collect()
    }

    /// Returns the bytes of the largest plan.
    pub fn size(&self) -> u64 {
        self.scenes.iter().map(Scene::size).max().unwrap_or(0)
    }

    /// Returns the label of the graph.
    pub fn title(&self) -> &'a str {
        if self.snapshot.label.is_empty() { "Unnamed graph" } else { &self.snapshot.label }
    }
}
