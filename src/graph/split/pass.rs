//! The pass: a graph and a budget in, a graph that fits the budget out.

use std::collections::HashMap;

use crate::graph::{BufferIndex, BufferSpec, Effect, Graph, PlanError, Requests, Sizes, TensorId, plan};
use crate::placement::Bytes;

use super::draft::Draft;
use super::not_split::NotSplit;
use super::operations::Kind;
use super::search::{CutMade, Found, Search};

/// A graph to cut, and what is known of its tensors.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// By tensor: what running it can change.
    pub effects: &'a [Effect],
    /// By tensor: a number that tensors with the same memory share; a root whose memory aliases no other has its own id.
    pub same_memory: &'a [TensorId],
    /// By tensor: how it can be cut.
    pub kinds: &'a [Kind],
    /// By tensor: bytes from its first to its last element.
    pub nbytes: &'a [Bytes],
    /// By tensor: whether it must stay as it is.
    pub kept: &'a [bool],
    /// By tensor: whether views of it must not be made, as of weights that a backend has repacked.
    pub unsliced: &'a [bool],
}

/// Work limit of the search: how many nodes are looked at. A million takes some tenths of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitEffort(pub u64);

impl Default for SplitEffort {
    fn default() -> Self {
        Self(10_000_000)
    }
}

/// What limits a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitLimits {
    /// Bytes for all buffers together.
    pub budget: Bytes,
    /// Threads that each part is to keep busy.
    pub threads: u32,
    /// The work limit.
    pub effort: SplitEffort,
}

impl SplitLimits {
    /// The threads that parts keep busy if nothing else is known.
    pub const THREADS: u32 = 8;

    /// Returns the limits with a budget, and defaults.
    pub fn of(budget: Bytes) -> Self {
        Self { budget, threads: Self::THREADS, effort: SplitEffort::default() }
    }
}

/// A tensor that is computed in parts.
pub type Split = CutMade;

/// A graph in which large tensors are computed in parts.
#[derive(Clone, Debug)]
pub struct Splitting {
    /// The new graph.
    pub draft: Draft,
    /// Bytes of the plan of the given graph, in all buffers.
    pub before: Bytes,
    /// Bytes of the plan of the new graph. More than the budget means that the budget cannot be met; then no smaller graph
    /// was found, and a search with these bytes as the budget finds one that fits.
    pub after: Bytes,
    /// The tensors that are computed in parts. A part that was cut again is one more.
    pub splits: Vec<Split>,
    /// The nodes of the given graph.
    pub nodes_before: usize,
}

impl Splitting {
    /// Returns how many nodes the new graph has more than the given one.
    pub fn added_nodes(&self) -> usize {
        self.draft.graph.nodes().len().saturating_sub(self.nodes_before)
    }
}

/// How often fewer live bytes are searched for where a plan exceeds the budget though the live bytes fit.
const ATTEMPTS: u32 = 4;

/// How often the smallest target that can be met is bisected: to some thousandths of the given bytes.
const BISECTIONS: u32 = 9;

/// Searches for cuts with which the plan fits the budget. The graph stays as given where it fits. `progress` is called with
/// the part of the effort that is used; the search is cancelled when it returns `false`.
///
/// # Errors
/// [`NotSplit`].
pub fn split(
    subject: Subject<'_>,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut dyn Sizes,
    limits: SplitLimits,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<Splitting, NotSplit> {
    check_lists(subject.graph)?;
    let mut known = HashMap::new();
    let mut sizes =
        |id: TensorId, buffer: BufferIndex| *known.entry((id, buffer)).or_insert_with(|| sizes.alloc_size(id, buffer));
    let given = Draft::of(subject, requests);
    let before = planned(&given, buffers, &mut sizes)?;
    let nodes_before = subject.graph.nodes().len();
    let unchanged = Splitting { draft: given.clone(), before, after: before, splits: Vec::new(), nodes_before };
    if before <= limits.budget {
        return Ok(unchanged);
    }
    let search = Search { buffers, sizes: &mut sizes, threads: limits.threads, left: limits.effort.0 };
    let mut pass = Pass { given: &given, buffers, limits, progress, search, unchanged };
    match pass.direct()? {
        Some(found) => Ok(found),
        None => pass.smallest(),
    }
}

struct Pass<'a> {
    given: &'a Draft,
    buffers: &'a [BufferSpec],
    limits: SplitLimits,
    progress: &'a mut dyn FnMut(f64) -> bool,
    search: Search<'a>,
    unchanged: Splitting,
}

impl Pass<'_> {
    /// Searches for a graph whose plan fits the budget, with no lower target than needed.
    fn direct(&mut self) -> Result<Option<Splitting>, NotSplit> {
        let mut target = self.limits.budget;
        for _ in 0..ATTEMPTS {
            let found = self.cut_for(target)?;
            if found.peak > target {
                return Ok(None);
            }
            let splitting = self.splitting(found)?;
            if splitting.after <= self.limits.budget {
                return Ok(Some(splitting));
            }
            // A plan may need more than the live bytes.
            target = target.saturating_sub(splitting.after - self.limits.budget);
        }
        Ok(None)
    }

    /// Bisects the smallest target that can be met, whatever the budget is. Returns the largest graph on the way that fits
    /// the budget, or the smallest.
    fn smallest(&mut self) -> Result<Splitting, NotSplit> {
        let (mut met, mut missed) = (self.unchanged.before, 0);
        let mut best = self.unchanged.clone();
        let budget = self.limits.budget;
        let fits = |bytes: Bytes| bytes <= budget;
        self.search.left = self.limits.effort.0;
        for _ in 0..BISECTIONS {
            if met <= missed {
                break;
            }
            let target = missed + (met - missed) / 2;
            let found = self.cut_for(target)?;
            if found.peak <= target {
                met = found.peak.min(target);
            } else {
                missed = target;
            }
            // No plan is smaller than its live bytes: planning would only confirm that it is no better.
            if !fits(found.peak) && (fits(best.after) || found.peak >= best.after) {
                continue;
            }
            let found = self.splitting(found)?;
            let is_better = match (fits(found.after), fits(best.after)) {
                (true, true) => found.after > best.after,
                (false, false) => found.after < best.after,
                (fits, _) => fits,
            };
            best = if is_better { found } else { best };
        }
        Ok(best)
    }

    fn cut_for(&mut self, target: Bytes) -> Result<Found, NotSplit> {
        let overflow = PlanError::TooLarge { buffer: 0, bytes: Bytes::MAX };
        let found = self.search.cut_for(self.given, target).ok_or(NotSplit::Plan(overflow))?;
        #[expect(clippy::cast_precision_loss, reason = "a part of the effort, to show")]
        let used = 1.0 - self.search.left as f64 / self.limits.effort.0.max(1) as f64;
        if (self.progress)(used) { Ok(found) } else { Err(NotSplit::Cancelled) }
    }

    fn splitting(&mut self, found: Found) -> Result<Splitting, NotSplit> {
        let after = planned(&found.draft, self.buffers, self.search.sizes)?;
        let unchanged = &self.unchanged;
        Ok(Splitting {
            draft: found.draft,
            before: unchanged.before,
            after,
            splits: found.cuts,
            nodes_before: unchanged.nodes_before,
        })
    }
}

/// Returns the bytes of the plan of a draft.
fn planned(draft: &Draft, buffers: &[BufferSpec], sizes: &mut dyn Sizes) -> Result<Bytes, NotSplit> {
    let mut own = |id: TensorId, buffer: BufferIndex| draft.alloc_size(sizes, id, buffer);
    let plan = plan(&draft.graph, buffers, draft.requests(), &mut own).map_err(NotSplit::Plan)?;
    Ok(plan.buffers.iter().map(|buffer| buffer.placement.size()).fold(0, Bytes::saturating_add))
}

fn check_lists(graph: &Graph) -> Result<(), NotSplit> {
    let mut listed = vec![false; graph.tensors().len()];
    for &id in graph.leafs().iter().chain(graph.nodes()) {
        if std::mem::replace(&mut listed[id as usize], true) {
            return Err(NotSplit::ListedTwice(id));
        }
    }
    Ok(())
}
