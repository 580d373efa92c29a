//! The pass: a graph and a budget in, a graph that fits the budget out.

use crate::graph::live_bytes::Model;
use crate::graph::order::{Hazards, ReorderEffort, reorder};
use crate::graph::pass::{Progress, queried_once};
use crate::graph::{BufferIndex, Edited, NotChanged, Requests, Sizes, TensorId, Wishes, Workspace, live_ranges, plan};
use crate::placement::{Bytes, Step};

use super::facts::{NodeFacts, TrainingGraph};
use super::less_work::{LessWork, Ordered};
use super::schedule::{Item, Scheduler, with_copies};
use super::search::Search;

/// Work limit of the search: how many nodes are simulated. A million takes some hundredths of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecomputeEffort(pub u64);

impl Default for RecomputeEffort {
    fn default() -> Self {
        Self(40_000_000)
    }
}

/// The memory that a graph needs to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Bytes of its plan, in all buffers.
    pub bytes: Bytes,
    /// Floating-point operations, see [`work_of`](super::work_of).
    pub work: u64,
}

/// A graph in which forward results are computed again in the backward pass.
#[derive(Clone, Debug)]
pub struct Recomputation {
    /// The nodes in the order of execution; those that run again are copies.
    pub items: Vec<Item>,
    /// The first step of the backward pass in the given graph: from it on, nodes use copies.
    pub boundary: Step,
    /// The graph with these nodes.
    pub edited: Edited,
    /// The requested buffer of each of them.
    pub node_buffers: Vec<BufferIndex>,
    /// The memory that the given graph needs.
    pub before: Needs,
    /// The memory that the new graph needs. More than the budget means that the budget cannot be met; then no smaller
    /// graph was found, and a search with these bytes as the budget finds one that fits.
    pub after: Needs,
}

impl Recomputation {
    /// Returns the steps of the given graph that run again, in their order.
    pub fn again(&self) -> impl Iterator<Item = Step> {
        let mut steps: Vec<Step> = self.items.iter().filter(|item| item.again).map(|item| item.step).collect();
        steps.sort_unstable();
        steps.into_iter()
    }
}

/// How often fewer live bytes are searched for where a plan exceeds the budget though the live bytes fit.
const ATTEMPTS: u32 = 4;

/// The denominator of the share of the effort that goes into an order with a lower peak.
const ORDER_SHARE: u64 = 10;

/// Searches for a graph whose plan fits `budget`, a number of bytes for all buffers together, with the least work found.
/// The graph stays as given where it fits. `progress` is called with the part of the search that is done, which rises to 1; the
/// search is cancelled when it returns `false`.
///
/// Each forward result is computed at most twice. Nodes that need no own memory and that nothing depends on, such as
/// the steps of an optimizer, run as soon as they can. Where the budget is not met by recomputation alone, an
/// [order](crate::graph::order) with a lower peak is searched for.
///
/// # Errors
/// [`NotChanged`].
pub fn recompute(
    subject: TrainingGraph<'_>,
    sizes: &mut dyn Sizes,
    budget: Bytes,
    effort: RecomputeEffort,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<Recomputation, NotChanged> {
    let mut sizes = queried_once(sizes, subject.graph.tensors().len(), subject.buffers.len());
    let given = Given::of(subject, &mut sizes)?;
    if given.before.bytes <= budget {
        return given.unchanged(&mut sizes);
    }
    let mut progress = Progress::new(progress);
    let (found, dropped) = given.least_work(&mut sizes, budget, effort, &mut progress)?;
    let is_met = found.after.bytes <= budget;
    let reordered = if is_met { None } else { given.in_better_order(&mut sizes, &found, effort)? };
    let found = match reordered {
        Some(reordered) => given.with_less_work(&mut sizes, reordered, dropped, budget, effort)?,
        None => found,
    };
    if progress.end() { Ok(found) } else { Err(NotChanged::Cancelled) }
}

/// Recomputes with a given choice: those of the forward results `dropped` that may be computed again are, in the order
/// of execution of [`recompute`]. For comparing choices.
///
/// # Errors
/// [`NotChanged`].
pub fn recompute_exactly(
    subject: TrainingGraph<'_>,
    sizes: &mut dyn Sizes,
    dropped: &[TensorId],
) -> Result<Recomputation, NotChanged> {
    let graph = subject.graph;
    let given = Given::of(subject, sizes)?;
    let Given { facts, model, .. } = &given;
    let mut is_dropped = vec![false; model.values.len()];
    for value in dropped.iter().filter_map(|&tensor| model.value_of[graph.root(tensor) as usize]) {
        is_dropped[value as usize] = facts.candidates[value as usize].is_some();
    }
    let mut scheduler = Scheduler::new(facts);
    let again = scheduler.find_again(&is_dropped);
    given.planned(sizes, scheduler.items().to_vec(), again)
}

/// The given graph, facts about it, and the memory that it needs.
struct Given<'a> {
    subject: TrainingGraph<'a>,
    hazards: Hazards,
    model: Model,
    facts: NodeFacts,
    before: Needs,
}

impl<'a> Given<'a> {
    fn of(subject: TrainingGraph<'a>, sizes: &mut dyn Sizes) -> Result<Self, NotChanged> {
        let TrainingGraph { graph, buffers, requests, .. } = subject;
        let workspace = &mut Workspace::default();
        let hazards = Hazards::new(graph, subject.same_memory);
        let model = Model::new(graph, buffers, &live_ranges(graph, buffers, requests, sizes, &[], workspace));
        let facts = NodeFacts::of(subject, &hazards, &model)?;
        let bytes = plan(graph, buffers, requests, sizes, Wishes::default(), workspace)?.bytes();
        let work = facts.work.iter().fold(0, |sum: u64, &work| sum.saturating_add(work));
        let before = Needs { bytes, work };
        Ok(Self { subject, hazards, model, facts, before })
    }

    /// Returns the given graph.
    fn unchanged(&self, sizes: &mut dyn Sizes) -> Result<Recomputation, NotChanged> {
        let steps = (0..).take(self.subject.graph.nodes().len());
        self.planned(sizes, steps.map(|step| Item { step, again: false }).collect(), 0)
    }

    /// Searches for the graph with the least work whose plan fits the budget, or the smallest one; at most as large as
    /// the given graph. Also returns the dropped results, by value.
    fn least_work(
        &self,
        sizes: &mut dyn Sizes,
        budget: Bytes,
        effort: RecomputeEffort,
        progress: &mut Progress<'_>,
    ) -> Result<(Recomputation, Vec<bool>), NotChanged> {
        let mut search = Search::new(&self.facts, &self.model, effort.0, progress);
        let mut target = budget;
        let mut attempts = ATTEMPTS;
        loop {
            let choice = search.choose(target);
            if search.is_cancelled() {
                return Err(NotChanged::Cancelled);
            }
            let found = self.planned(sizes, search.items(&choice), choice.work)?;
            attempts -= 1;
            if found.after.bytes <= budget || choice.bytes > target || attempts == 0 {
                if found.after.bytes > self.before.bytes {
                    return Ok((self.unchanged(sizes)?, vec![false; choice.dropped.len()]));
                }
                return Ok((found, choice.dropped));
            }
            // A plan may need more than the live bytes.
            target = if attempts == 1 { 0 } else { target.saturating_sub(found.after.bytes - budget) };
        }
    }

    /// Puts the nodes of `found` into an order with a lower peak, if there is one.
    fn in_better_order(
        &self,
        sizes: &mut dyn Sizes,
        found: &Recomputation,
        effort: RecomputeEffort,
    ) -> Result<Option<Recomputation>, NotChanged> {
        let Some(items) = self.better_order(sizes, found, ReorderEffort(effort.0 / ORDER_SHARE))? else {
            return Ok(None);
        };
        let reordered = self.planned(sizes, items, found.after.work - found.before.work)?;
        Ok((reordered.after.bytes < found.after.bytes).then_some(reordered))
    }

    /// Returns the nodes of `found` in an order with a lower peak, or `None` where none is found. The hazards of the given
    /// graph are kept.
    fn better_order(
        &self,
        sizes: &mut dyn Sizes,
        found: &Recomputation,
        effort: ReorderEffort,
    ) -> Result<Option<Vec<Item>>, NotChanged> {
        let Recomputation { items, edited, node_buffers, .. } = found;
        let Edited { graph, origins, .. } = edited;
        let hazards = Hazards::new(graph, &same_memory(self.subject, edited));
        let hazards = hazards.with_pairs(pairs(&self.hazards, items));
        let requests = Requests { leafs: self.subject.requests.leafs, nodes: node_buffers };
        let mut sizes = |id: TensorId, buffer: BufferIndex| sizes.alloc_size(origins[id as usize], buffer);
        let found = reorder(graph, self.subject.buffers, requests, &mut sizes, &hazards, effort)?;
        Ok((found.moved > 0).then(|| found.order.iter().map(|&step| items[step as usize]).collect()))
    }

    /// Lowers the work of `reordered`, which drops `dropped`, within the budget, or within its bytes where these are more.
    fn with_less_work(
        &self,
        sizes: &mut dyn Sizes,
        reordered: Recomputation,
        dropped: Vec<bool>,
        budget: Bytes,
        effort: RecomputeEffort,
    ) -> Result<Recomputation, NotChanged> {
        let mut search = LessWork::new(&self.facts, &self.model, effort.0 / ORDER_SHARE);
        let work = reordered.after.work - reordered.before.work;
        let peak = search.peak(&reordered.items);
        let limit = if reordered.after.bytes <= budget { budget } else { peak };
        let mut best = search.search(Ordered { items: reordered.items.clone(), dropped, work }, limit);
        for exchange in search.take_too_large() {
            if exchange.work < best.work {
                let found = self.planned(sizes, exchange.items.clone(), exchange.work)?;
                let items = self.in_better_order(sizes, &found, effort)?.map_or(exchange.items, |found| found.items);
                if search.peak(&items) <= limit {
                    best = search.search(Ordered { items, ..exchange }, limit);
                }
            }
        }
        let found = self.planned(sizes, best.items, best.work)?;
        // A plan may need more than the live bytes.
        Ok(if found.after.bytes <= budget.max(reordered.after.bytes) { found } else { reordered })
    }

    /// Returns the graph with these nodes, of which some do the work `again`, planned.
    fn planned(&self, sizes: &mut dyn Sizes, items: Vec<Item>, again: u64) -> Result<Recomputation, NotChanged> {
        let edited = with_copies(self.subject.graph, &items, self.facts.boundary);
        let node_buffers: Vec<BufferIndex> =
            items.iter().map(|item| self.subject.requests.nodes[item.step as usize]).collect();
        let sizes: &mut dyn Sizes =
            &mut |id: TensorId, buffer: BufferIndex| sizes.alloc_size(edited.origins[id as usize], buffer);
        let requests = Requests { leafs: self.subject.requests.leafs, nodes: &node_buffers };
        let bytes =
            plan(&edited.graph, self.subject.buffers, requests, sizes, Wishes::default(), &mut Workspace::default())?
                .bytes();
        let after = Needs { bytes, work: self.before.work.saturating_add(again) };
        let boundary = self.facts.boundary;
        Ok(Recomputation { items, boundary, edited, node_buffers, before: self.before, after })
    }
}

/// Returns the positions in `items` of nodes that must not be swapped in the given graph.
fn pairs(given_hazards: &Hazards, items: &[Item]) -> Vec<(Step, Step)> {
    let once = || (0..).zip(items).filter(|(_, item)| !item.again);
    let mut positions: Vec<Step> = vec![0; items.len()];
    once().for_each(|(position, item)| positions[item.step as usize] = position);
    let positions = &positions;
    let before = |item: &Item| given_hazards.before(item.step).iter().map(|&earlier| positions[earlier as usize]);
    once().flat_map(|(position, item)| before(item).map(move |earlier| (earlier, position))).collect()
}

/// Returns, by tensor of an edited graph, the first tensor that it aliases. A copy aliases none: it has no memory before
/// planning.
fn same_memory(subject: TrainingGraph<'_>, edited: &Edited) -> Vec<TensorId> {
    let mut new_ids = vec![None; subject.graph.tensors().len()];
    let tensors = || (0..).zip(&edited.origins);
    tensors().filter(|&(id, _)| !edited.is_new(id)).for_each(|(id, &origin)| new_ids[origin as usize] = Some(id));
    let first = |id: TensorId, origin: TensorId| new_ids[subject.same_memory[origin as usize] as usize].unwrap_or(id);
    tensors().map(|(id, &origin)| if edited.is_new(id) { id } else { first(id, origin) }).collect()
}
