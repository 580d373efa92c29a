//! How regions grow: around a tensor, then by one tensor at a time.

use crate::graph::TensorId;

use super::facts::DraftFacts;
use super::operations::Need;
use super::region::{Member, Region};
use super::views::dimension_of_view;

/// Maximum number of members of a region.
const MOST_MEMBERS: usize = 64;

impl Region {
    /// Returns the region of a tensor that is to be small, and of all nodes that read it. `None` if one of them cannot be
    /// tiled along that dimension.
    pub fn around(facts: &DraftFacts<'_>, seed: TensorId, dimension: usize) -> Option<Self> {
        Self::default().with_internal(facts, seed, dimension)
    }

    /// Returns the region in which a tensor is small too: an output of it, or a source that is tiled along `dimension`.
    pub fn with_internal(&self, facts: &DraftFacts<'_>, tensor: TensorId, dimension: usize) -> Option<Self> {
        let mut region = self.clone();
        if !facts.may_be_internal(tensor) || region.is_internal(tensor) {
            return None;
        }
        region.add(facts, tensor, dimension)?;
        region.internal.push(tensor);
        let mut waiting = vec![tensor];
        while let Some(read) = waiting.pop() {
            let dimension = region.member(read)?.dimension;
            for &user in facts.users.of(read) {
                if facts.draft.known[user as usize].kind.is_view() {
                    let dimension = region.dimension_of_view(facts, user, [tensor, read], dimension)?;
                    region.add(facts, user, dimension)?;
                    waiting.push(user);
                } else {
                    region.add_user(facts, user, read)?;
                }
                if region.members.len() > MOST_MEMBERS {
                    return None;
                }
            }
        }
        let steps = &facts.steps;
        region.members.sort_by_key(|member| steps[member.tensor as usize]);
        Some(region)
    }

    /// Adds a member, or returns `None` if it is one with another dimension.
    fn add(&mut self, facts: &DraftFacts<'_>, tensor: TensorId, dimension: usize) -> Option<()> {
        if let Some(member) = self.member(tensor) {
            return (member.dimension == dimension).then_some(());
        }
        let extent = facts.draft.graph.layout(tensor).ne[dimension];
        let may_be = facts.is_tileable(tensor) && extent > 1;
        may_be.then(|| self.members.push(Member { tensor, dimension, extent }))
    }

    /// Adds a node that reads `read`, tiled along the first dimension that needs no more of it than its tile.
    fn add_user(&mut self, facts: &DraftFacts<'_>, user: TensorId, read: TensorId) -> Option<()> {
        let graph = &facts.draft.graph;
        let of = *self.member(read)?;
        if self.member(user).is_some() {
            return Some(());
        }
        let suits = |&dimension: &usize| {
            let Some(tiled) = facts.draft.tiled(user, dimension) else { return false };
            let extent = graph.layout(user).ne[dimension];
            let mut needs = tiled.needs.iter().zip(graph.sources(user)).filter(|(_, source)| **source == read);
            needs.all(|(&need, _)| match need {
                Need::Along { dimension, numerator, denominator } => {
                    dimension == of.dimension && of.extent.checked_mul(denominator) == extent.checked_mul(numerator)
                }
                _ => false,
            })
        };
        let dimension = (0..4).find(suits)?;
        self.add(facts, user, dimension)
    }

    /// Returns the dimension of a view of `read`, which is `root` or a view of it.
    fn dimension_of_view(
        &self,
        facts: &DraftFacts<'_>,
        view: TensorId,
        [root, read]: [TensorId; 2],
        dimension: usize,
    ) -> Option<usize> {
        let graph = &facts.draft.graph;
        let offset = graph.tensor(view).view.filter(|view| view.root == root)?.offset;
        let offset = offset.checked_sub(graph.tensor(read).view.map_or(0, |view| view.offset))?;
        // Slices may have one more, which comes before them.
        let is_of_read = graph.sources(view).first() == Some(&read);
        is_of_read.then(|| dimension_of_view(graph.layout(read), graph.layout(view), offset, dimension))?
    }

    /// Returns the tensors by which the region can grow, each with its dimension: outputs, and the tensors outside that
    /// tiles need only ranges of. The largest comes first.
    pub fn neighbours(&self, facts: &DraftFacts<'_>) -> Vec<(TensorId, usize)> {
        let graph = &facts.draft.graph;
        let mut found: Vec<(TensorId, usize)> =
            self.outputs(facts).map(|member| (member.tensor, member.dimension)).collect();
        for member in &self.members {
            let Some(tiled) = facts.draft.tiled(member.tensor, member.dimension) else { continue };
            for (&need, &source) in tiled.needs.iter().zip(graph.sources(member.tensor)) {
                let Need::Along { dimension, numerator, denominator } = need else { continue };
                let is_same_share =
                    graph.layout(source).ne[dimension].checked_mul(denominator) == member.extent.checked_mul(numerator);
                if self.member(source).is_none()
                    && is_same_share
                    && let Some(producer) = self.producer(facts, source, dimension)
                {
                    found.push(producer);
                }
            }
        }
        found.retain(|&(tensor, _)| facts.may_be_internal(tensor));
        found.sort_by_key(|&(tensor, dimension)| (std::cmp::Reverse(facts.model().size(tensor)), tensor, dimension));
        found.dedup();
        found
    }

    /// Returns the owner of the memory of a source, and its dimension that is tiled if `dimension` of the source is.
    fn producer(&self, facts: &DraftFacts<'_>, source: TensorId, dimension: usize) -> Option<(TensorId, usize)> {
        let graph = &facts.draft.graph;
        let Some(view) = graph.tensor(source).view else { return Some((source, dimension)) };
        let layout = graph.layout(view.root);
        // The dimension of the owner of which the view's dimension would follow.
        let is_it =
            |&other: &usize| layout.ne[other] > 1 && self.follow(facts, view.root, other, source) == Some(dimension);
        Some((view.root, (0..4).find(is_it)?))
    }

    /// Returns the dimension of a view that is tiled if `dimension` of its owner is.
    fn follow(&self, facts: &DraftFacts<'_>, root: TensorId, dimension: usize, view: TensorId) -> Option<usize> {
        let parent = *facts.draft.graph.sources(view).first()?;
        let dimension = if parent == root { dimension } else { self.follow(facts, root, dimension, parent)? };
        self.dimension_of_view(facts, view, [root, parent], dimension)
    }
}
