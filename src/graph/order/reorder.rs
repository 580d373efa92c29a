//! The new order of a graph, compared with the given one by their plans.

use crate::graph::live_bytes::{Model, Run, peaks_of};
use crate::graph::pass::queried_once;
use crate::graph::{
    BufferIndex, BufferSpec, Graph, GraphPlan, PlanError, Requests, Sizes, Wishes, Workspace, live_ranges, plan,
};
use crate::placement::{Bytes, Step};

use super::Hazards;
use super::eager::eager;
use super::improve::{GLOBAL, Improver, LOCAL, restore};

/// Work limit of the search: how many times a node is tried. A million takes some hundredths of a second, on graphs of
/// more than ten thousand nodes up to two tenths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReorderEffort(pub u64);

impl Default for ReorderEffort {
    fn default() -> Self {
        Self(3_000_000)
    }
}

/// The bytes that an order needs in one buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// The most live bytes at a step.
    pub lower_bound: Bytes,
    /// Bytes of the plan.
    pub size: Bytes,
    /// Chunks of the plan.
    pub chunks: usize,
}

/// An order of a graph's nodes, and what both orders need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reordering {
    /// The steps of the given order, in the new order.
    pub order: Vec<Step>,
    /// How many nodes moved; 0 if the order stays as given.
    pub moved: usize,
    /// The bytes that the given order needs, by buffer.
    pub before: Vec<Measure>,
    /// The bytes that the new one needs, by buffer: nowhere more, and unless nothing moved, a lower bound is lower
    /// somewhere.
    pub after: Vec<Measure>,
}

impl Reordering {
    /// Returns the lower bound of the given order, summed over all buffers.
    pub fn given_bound(&self) -> Bytes {
        self.before.iter().map(|measure| measure.lower_bound).fold(0, Bytes::saturating_add)
    }
}

/// Searches for an order of the nodes of `graph` with a lower peak. `requests` are for the given order. The order stays
/// as given unless a better one is found: its lower bound is lower in some buffer, and higher in none, and its plan is
/// in no buffer larger or in more chunks.
///
/// # Errors
/// [`PlanError`] when sizes overflow.
pub fn reorder(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut dyn Sizes,
    hazards: &Hazards,
    effort: ReorderEffort,
) -> Result<Reordering, PlanError> {
    let mut sizes = queried_once(sizes, graph.tensors().len(), buffers.len());
    let (sizes, workspace): (&mut dyn Sizes, _) = (&mut sizes, &mut Workspace::default());
    let given: Vec<Step> = (0..).take(graph.nodes().len()).collect();
    let before = measure(&plan(graph, buffers, requests, sizes, Wishes::default(), workspace)?);
    let model = Model::new(graph, buffers, &live_ranges(graph, buffers, requests, sizes, &[], workspace));
    let mut best = Reordering { order: given.clone(), moved: 0, after: before.clone(), before };
    for OrderCandidate { order, bound } in candidates(&model, hazards, &given, effort) {
        if best.moved > 0 && total(&best.after) <= bound {
            break;
        }
        debug_assert!(hazards.allow(&order), "hazards do not allow this order");
        let nodes: Vec<BufferIndex> = order.iter().map(|&step| requests.nodes[step as usize]).collect();
        let requests = Requests { nodes: &nodes, ..requests };
        let after = measure(&plan(&graph.in_order(&order), buffers, requests, sizes, Wishes::default(), workspace)?);
        if is_better(&after, &best.before) && (best.moved == 0 || total(&after) < total(&best.after)) {
            best = Reordering { moved: moved(&order), order, after, ..best };
        }
    }
    Ok(best)
}

/// An order that may be better than the given one.
struct OrderCandidate {
    order: Vec<Step>,
    /// The sum of its peaks: no plan for it is smaller.
    bound: Bytes,
}

/// Searches in two ways, from the given order or, where its peaks are lower, from the eager one. Orders with the lowest peaks come first, and among equals those closer to the given order.
fn candidates(model: &Model, hazards: &Hazards, given: &[Step], effort: ReorderEffort) -> Vec<OrderCandidate> {
    // The eager order takes the work of running each node once.
    let start = if effort.0 < given.len() as u64 { given.to_vec() } else { start(model, hazards, given) };
    let improver = |ladder, work| Improver { model, hazards, ladder, order: start.clone(), work };
    // The work that one way leaves of its half is for the other.
    let mut local = improver(LOCAL, effort.0 / 2);
    local.improve();
    let mut global = improver(GLOBAL, effort.0 - effort.0 / 2 + local.work);
    global.improve();
    if local.work == 0 {
        local.work = global.work;
        local.improve();
    }
    let mut found = Vec::new();
    for order in [local.order, global.order].into_iter().filter(|order| order != given) {
        let caps = peaks_of(&mut Run::new(model), &order);
        let mut restored = order.clone();
        restore(model, hazards, &mut restored, &caps, &mut effort.0.clone());
        let bound = caps.iter().sum();
        found.extend([restored, order].map(|order| OrderCandidate { order, bound }));
    }
    found.sort_by_key(|candidate| candidate.bound);
    found
}

/// Returns the order to start from.
fn start(model: &Model, hazards: &Hazards, given: &[Step]) -> Vec<Step> {
    let eager = eager(model, hazards);
    let peaks = |order: &[Step]| peaks_of(&mut Run::new(model), order);
    let (before, after) = (peaks(given), peaks(&eager));
    let is_lower = after != before && after.iter().zip(&before).all(|(after, before)| after <= before);
    if is_lower { eager } else { given.to_vec() }
}

fn measure(plan: &GraphPlan) -> Vec<Measure> {
    let measure = |buffer: &crate::graph::BufferPlan| Measure {
        lower_bound: buffer.lower_bound,
        size: buffer.placement.size(),
        chunks: buffer.placement.chunks.len(),
    };
    plan.buffers.iter().map(measure).collect()
}

/// Returns the bytes of the plan, in all buffers.
fn total(measures: &[Measure]) -> Bytes {
    measures.iter().map(|measure| measure.size).fold(0, Bytes::saturating_add)
}

fn is_better(after: &[Measure], before: &[Measure]) -> bool {
    let nowhere_worse = |(after, before): (&Measure, &Measure)| {
        after.lower_bound <= before.lower_bound && after.size <= before.size && after.chunks <= before.chunks
    };
    let pairs = || after.iter().zip(before);
    pairs().all(nowhere_worse) && pairs().any(|(after, before)| after.lower_bound < before.lower_bound)
}

/// Returns the least number of nodes to take out and insert elsewhere to get `order` from the given order: all but
/// those of its longest increasing subsequence.
fn moved(order: &[Step]) -> usize {
    let mut ends: Vec<Step> = Vec::new();
    for &step in order {
        let at = ends.partition_point(|&end| end < step);
        match ends.get_mut(at) {
            Some(end) => *end = step,
            None => ends.push(step),
        }
    }
    order.len() - ends.len()
}

#[cfg(test)]
mod tests {
    use super::{Measure, Step, is_better, moved};

    #[test]
    fn only_nodes_outside_the_longest_increasing_subsequence_have_moved() {
        let orders: [&[Step]; 5] = [&[], &[0, 1, 2], &[3, 0, 1, 2], &[1, 2, 3, 0], &[2, 1, 0]];
        assert_eq!(orders.map(moved), [0, 0, 1, 1, 2]);
    }

    #[test]
    fn order_with_a_lower_bound_is_no_better_where_anything_else_grows() {
        let before = Measure { lower_bound: 64, size: 80, chunks: 1 };
        let lower = Measure { lower_bound: 48, ..before };
        let is_better = |after: Measure| is_better(&[before, after], &[before, before]);
        assert!(is_better(lower) && is_better(Measure { size: 48, ..lower }));
        assert!(!is_better(before) && !is_better(Measure { size: 64, ..before }));
        assert!(!is_better(Measure { size: 81, ..lower }) && !is_better(Measure { chunks: 2, ..lower }));
        let [one, other] = [48, 65].map(|lower_bound| Measure { lower_bound, ..before });
        assert!(!super::is_better(&[one, other], &[before, before]), "another buffer has a higher bound");
    }
}
