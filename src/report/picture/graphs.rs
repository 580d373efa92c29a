//! Which views belong to one graph.

use crate::graph::snapshot::Snapshot;

use super::scene::Scene;
use super::{Options, View};

/// A graph and its plans.
pub struct Drawn<'a> {
    pub snapshot: &'a Snapshot,
    pub scenes: Vec<Scene<'a>>,
}

impl<'a> Drawn<'a> {
    /// All graphs, in the order of the views.
    pub fn all(views: &[View<'a>], options: &Options<'_>) -> Vec<Self> {
        let groups = views.chunk_by(|one, other| std::ptr::eq(one.snapshot, other.snapshot));
        let drawn = |group: &[View<'a>]| {
            Some(Self {
                snapshot: group.first()?.snapshot,
                scenes: group.iter().map(|view| Scene::of(view, options.buffer)).collect(),
            })
        };
        groups.filter_map(drawn).collect()
    }

    /// Bytes of the largest of its plans.
    pub fn size(&self) -> u64 {
        self.scenes.iter().map(Scene::size).max().unwrap_or(0)
    }

    /// What to call it.
    pub fn title(&self) -> &'a str {
        if self.snapshot.label.is_empty() { "A graph without a name" } else { &self.snapshot.label }
    }
}
