//! The pass: a graph and a budget in, a graph that fits the budget out.

use crate::graph::pass::{Progress, queried_once};
use crate::graph::{
    BufferIndex, BufferSpec, NotChanged, PlanError, Requests, Sizes, TensorId, Wishes, Workspace, plan,
};
use crate::placement::Bytes;

use super::draft::{Draft, TileableGraph};
use super::facts::DraftFacts;
use super::search::{Found, Goal, Search, TiledTensor};

/// Work limit of the search: how many nodes are looked at. A million takes some tenths of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TilingEffort(pub u64);

impl Default for TilingEffort {
    fn default() -> Self {
        Self(10_000_000)
    }
}

/// The limits of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TilingLimits {
    /// Bytes for all buffers together.
    pub budget: Bytes,
    /// Threads that each tile is to keep busy.
    pub threads: u32,
    /// The work limit.
    pub effort: TilingEffort,
}

impl TilingLimits {
    /// The threads that tiles keep busy if nothing else is known.
    pub const THREADS: u32 = 8;

    /// Returns the limits with a budget, and defaults.
    pub fn of(budget: Bytes) -> Self {
        Self { budget, threads: Self::THREADS, effort: TilingEffort::default() }
    }
}

/// A graph in which large tensors are computed in tiles.
#[derive(Clone, Debug)]
pub struct TiledGraph {
    /// The new graph.
    pub draft: Draft,
    /// Bytes of the plan of the given graph, in all buffers.
    pub before: Bytes,
    /// Bytes of the plan of the new graph. More than the budget means that the budget cannot be met; then no smaller graph
    /// was found, and a search with these bytes as the budget finds one that fits.
    pub after: Bytes,
    /// The tensors that are computed in tiles. A tile that was tiled again is one more.
    pub tiled: Vec<TiledTensor>,
    /// The nodes of the given graph.
    pub nodes_before: usize,
    /// Whether the draft is not the given graph.
    pub is_changed: bool,
}

impl TiledGraph {
    /// Returns how many nodes the new graph has more than the given one.
    pub fn added_nodes(&self) -> usize {
        self.draft.graph.nodes().len().saturating_sub(self.nodes_before)
    }
}

/// Sizes overflow.
const TOO_LARGE: NotChanged = NotChanged::Plan(PlanError::TooLarge { buffer: 0, bytes: Bytes::MAX });

/// How often fewer live bytes are searched for where a plan exceeds the budget though the live bytes fit.
const ATTEMPTS: u32 = 4;

/// How often the smallest target that can be met is bisected where estimates were wrong.
const BISECTIONS: u32 = 9;

/// How often a larger graph is searched for where the smallest one fits the budget, and none was found for the budget.
const LARGER: u32 = 3;

/// Tiles may be finer than needed if the smallest graph needs this tile more than the given one can be lowered to at once.
const FINER: Bytes = 16;

/// The most nodes of a graph that is searched for again with coarser tilings.
const MOST_NODES: usize = 8192;

/// Searches for tilings with which the plan fits the budget. The graph stays as given where it fits. `progress` is called with
/// the part of the search that is done, which rises to 1; the search is cancelled when it returns `false`.
///
/// # Errors
/// [`NotChanged`].
pub fn tile(
    subject: &TileableGraph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut dyn Sizes,
    limits: TilingLimits,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<TiledGraph, NotChanged> {
    NotChanged::check_lists(&subject.graph)?;
    let mut sizes = queried_once(sizes, subject.graph.tensors().len(), buffers.len());
    let draft = Draft::of(&subject.graph, subject, requests);
    let before = planned(&draft, buffers, &mut sizes)?;
    let nodes_before = subject.graph.nodes().len();
    let given = TiledGraph { draft, before, after: before, tiled: Vec::new(), nodes_before, is_changed: false };
    if before <= limits.budget {
        return Ok(given);
    }
    let detached = match &subject.detached {
        Some(graph) => {
            let draft = Draft::of(graph, subject, requests);
            let after = planned(&draft, buffers, &mut sizes)?;
            TiledGraph { draft, after, is_changed: true, ..given.clone() }
        }
        None => given.clone(),
    };
    let draft = detached.draft.clone();
    let facts = DraftFacts::of(&draft, buffers, &mut sizes).ok_or(TOO_LARGE)?;
    let least = vec![0; buffers.len()];
    let search = Search { buffers, sizes: &mut sizes, threads: limits.threads, left: limits.effort.0, least };
    let mut pass = Pass { facts: &facts, buffers, limits, progress: Progress::new(progress), search, given, detached };
    // Nothing fits into no bytes: the smallest graph is asked for.
    let direct = if limits.budget == 0 { None } else { pass.direct()? };
    let found = direct.map_or_else(|| pass.smallest(), Ok)?;
    if pass.progress.end() { Ok(found) } else { Err(NotChanged::Cancelled) }
}

struct Pass<'a> {
    /// Those of the graph that is tiled.
    facts: &'a DraftFacts<'a>,
    buffers: &'a [BufferSpec],
    limits: TilingLimits,
    progress: Progress<'a>,
    search: Search<'a>,
    /// The given graph, and the one that is tiled, both whole.
    given: TiledGraph,
    detached: TiledGraph,
}

impl Pass<'_> {
    /// Searches for a graph whose plan fits the budget, with no lower target than needed.
    fn direct(&mut self) -> Result<Option<TiledGraph>, NotChanged> {
        let mut target = self.limits.budget;
        self.progress.start_stage();
        for _ in 0..ATTEMPTS {
            let found = self.tiling_for(Goal::Target(target))?;
            if found.peak > target {
                return Ok(None);
            }
            let tiled = self.tiled_graph(found)?;
            if tiled.after <= self.limits.budget {
                return Ok(Some(tiled));
            }
            // A plan may need more than the live bytes.
            target = target.saturating_sub(tiled.after - self.limits.budget);
        }
        Ok(None)
    }

    /// Searches for the smallest graph, and if it fits the budget, for a larger one that does.
    fn smallest(&mut self) -> Result<TiledGraph, NotChanged> {
        // Knowledge from the search for a budget would make the result depend on that budget.
        self.search.left = self.limits.effort.0;
        self.progress.start_stage();
        self.search.least.fill(0);
        let found = self.tiling_for(Goal::Least)?;
        let (peak, is_misled) = (found.peak, found.is_misled);
        let mut best = self.given.clone();
        self.improve(&mut best, found)?;
        let least = self.search.least.iter().copied().fold(0, Bytes::saturating_add);
        if is_misled {
            self.bisect(&mut best, least)?;
        } else if peak.saturating_sub(least) > least / FINER && best.draft.graph.nodes().len() <= MOST_NODES {
            let found = self.tiling_for(Goal::Target(peak))?;
            self.improve(&mut best, found)?;
        }
        if best.after < self.limits.budget { self.larger(best) } else { Ok(best) }
    }

    /// Bisects the smallest target above `missed` that can be met.
    fn bisect(&mut self, best: &mut TiledGraph, mut missed: Bytes) -> Result<(), NotChanged> {
        let mut met = self.given.before;
        for _ in 0..BISECTIONS {
            if met <= missed {
                break;
            }
            let target = missed + (met - missed) / 2;
            let found = self.tiling_for(Goal::Target(target))?;
            if found.peak <= target {
                met = found.peak;
            } else {
                missed = target;
            }
            self.improve(best, found)?;
        }
        Ok(())
    }

    /// Searches for a graph that fits the budget, and is larger than one that does.
    fn larger(&mut self, mut best: TiledGraph) -> Result<TiledGraph, NotChanged> {
        let mut missed = self.limits.budget;
        for _ in 0..LARGER {
            let target = best.after + (missed - best.after) / 2;
            let found = self.tiling_for(Goal::Target(target))?;
            let found = if found.peak <= target { Some(self.tiled_graph(found)?) } else { None };
            match found {
                Some(larger) if larger.after <= self.limits.budget && larger.after > best.after => best = larger,
                _ => missed = target,
            }
        }
        Ok(best)
    }

    /// Replaces a graph by one that is smaller, or as small with fewer nodes.
    fn improve(&mut self, best: &mut TiledGraph, found: Found) -> Result<(), NotChanged> {
        // No plan is smaller than its live bytes.
        if found.peak <= best.after {
            let found = self.tiled_graph(found)?;
            if (found.after, found.added_nodes()) < (best.after, best.added_nodes()) {
                *best = found;
            }
        }
        Ok(())
    }

    fn tiling_for(&mut self, goal: Goal) -> Result<Found, NotChanged> {
        let found = self.search.tiling_for(self.facts, goal).ok_or(TOO_LARGE)?;
        let goes_on = self.progress.used(self.search.left, self.limits.effort.0);
        if goes_on { Ok(found) } else { Err(NotChanged::Cancelled) }
    }

    fn tiled_graph(&mut self, found: Found) -> Result<TiledGraph, NotChanged> {
        let Some(draft) = found.draft else { return Ok(self.detached.clone()) };
        let after = planned(&draft, self.buffers, self.search.sizes)?;
        let TiledGraph { before, nodes_before, .. } = self.given;
        Ok(TiledGraph { draft, before, after, tiled: found.tilings, nodes_before, is_changed: true })
    }
}

/// Returns the bytes of the plan of a draft.
fn planned(draft: &Draft, buffers: &[BufferSpec], sizes: &mut dyn Sizes) -> Result<Bytes, NotChanged> {
    let own: &mut dyn Sizes = &mut |id: TensorId, buffer: BufferIndex| draft.alloc_size(sizes, id, buffer);
    Ok(plan(&draft.graph, buffers, draft.requests(), own, Wishes::default(), &mut Workspace::default())?.bytes())
}
