//! Steps: consecutive nodes of a graph that are computed one after the other, while the graph as a whole has one plan.
//!
//! Uses the graph and its retention. What a step reads of earlier ones is live in any plan; [`retained`] also keeps it
//! readable until the step has run. A step here is a range of nodes, whose positions are [`Step`]s.

use std::ops::Range;

use crate::graph::{Graph, Retained, Retention, TensorId};
use crate::placement::{Bytes, MemoryProfile, Problem, Step};

#[cfg(test)]
mod tests;

/// The memory of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepBytes {
    /// The most bytes that are live while it is computed.
    pub peak: Bytes,
    /// Bytes that are live when it has run, and in the next step.
    pub crossing: Bytes,
}

/// Returns the steps of a graph of `nodes` nodes that is cut after each node of `cuts`.
///
/// # Errors
/// Why it cannot be cut so.
pub fn steps_between(nodes: usize, cuts: &[Step]) -> Result<Vec<Range<Step>>, String> {
    let end = Step::try_from(nodes).expect("fewer than 2^32 nodes");
    let mut steps = Vec::with_capacity(cuts.len() + 1);
    let mut start = 0;
    for (cut, &node) in cuts.iter().enumerate() {
        if node < start {
            let order = "cuts are given in the order in which the nodes run";
            return Err(format!("cut {cut} is not at a later node than cut {}; {order}", cut - 1));
        }
        steps.push(start..node + 1);
        start = node + 1;
    }
    match cuts.len().checked_sub(1) {
        _ if end == 0 => return Err("the graph has no nodes".to_owned()),
        Some(last) if start >= end => {
            return Err(format!("cut {last} is at the last node, after which no step is left"));
        }
        _ => steps.push(start..end),
    }
    Ok(steps)
}

/// Returns `count` steps of about as many nodes each, cut where the fewest bytes cross. `problems` are those of a plan of
/// the graph, which has `nodes` nodes.
///
/// # Errors
/// Why it cannot be cut so.
pub fn choose_steps(nodes: usize, count: usize, problems: &[Problem]) -> Result<Vec<Range<Step>>, String> {
    if count == 0 {
        return Err("a graph cannot be computed in 0 steps; 1 or more are needed".to_owned());
    }
    if count > nodes.max(1) {
        return Err(format!("the graph has {nodes} nodes, which are fewer than the {count} steps"));
    }
    let profiles: Vec<MemoryProfile> = problems.iter().map(MemoryProfile::of).collect();
    let crossing = |node: usize| -> Bytes { profiles.iter().map(|profile| profile.crossing(node)).sum() };
    // Half a step of nodes before and after each of the cuts that would make steps of equal length.
    let edge = |half: usize| (half * nodes).div_ceil(2 * count);
    let cut = |number: usize| {
        let best = (edge(2 * number - 1)..edge(2 * number + 1))
            .min_by_key(|&node| (crossing(node), node.abs_diff(number * nodes / count)));
        Step::try_from(best.expect("at least one node a step") - 1).expect("fewer than 2^32 nodes")
    };
    steps_between(nodes, &(1..count).map(cut).collect::<Vec<Step>>())
}

/// Returns what is retained when `graph` is computed in `steps`, besides what it retains already: to the end its inputs
/// and the results that no other node reads; until a step has run what it reads of earlier ones.
pub fn retained(graph: &Graph, steps: &[Range<Step>]) -> Retention {
    let mut touched: Vec<Option<(Step, Step)>> = vec![None; graph.tensors().len()];
    let mut is_read = vec![false; graph.tensors().len()];
    for (at, &node) in (0..).zip(graph.nodes()) {
        for &tensor in graph.sources(node).iter().chain([&node]) {
            touched[graph.root(tensor) as usize].get_or_insert((at, at)).1 = at;
            // A cast has itself as a source.
            is_read[tensor as usize] |= tensor != node;
        }
    }
    let is_input = |id: TensorId| graph.tensor(id).is_marker() && graph.sources(id).is_empty();
    let is_kept = |id: &TensorId| is_input(*id) || !is_read[*id as usize];
    let listed = graph.leafs().iter().chain(graph.nodes().iter().filter(|id| is_kept(id)));
    let to_the_end = listed.map(|&id| Retained { tensor: graph.root(id), until: None });
    let step_of = |node: Step| steps.partition_point(|step| step.end <= node);
    let crossing = (0..).zip(&touched).filter_map(|(tensor, touched)| {
        let (first, last) = touched.map(|(first, last)| (step_of(first), step_of(last)))?;
        let end = steps[last].end - 1;
        (first < last).then(|| Retained { tensor, until: Some(graph.nodes()[end as usize]) })
    });
    let is_planned = |it: &Retained| graph.tensor(it.tensor).is_owned();
    // The last entry of a tensor counts.
    crossing.chain(to_the_end).filter(is_planned).chain(graph.retention().list().iter().copied()).collect()
}

/// Returns the memory of each of `steps`. `problems` are those of a plan of the graph.
pub fn bytes_of(steps: &[Range<Step>], problems: &[Problem]) -> Vec<StepBytes> {
    let profiles: Vec<MemoryProfile> = problems.iter().map(MemoryProfile::of).collect();
    let live = |node: Step| profiles.iter().filter_map(|profile| profile.live.get(node as usize)).sum();
    let bytes = |step: &Range<Step>| StepBytes {
        peak: step.clone().map(live).max().unwrap_or(0),
        crossing: profiles.iter().map(|profile| profile.crossing(step.end as usize)).sum(),
    };
    steps.iter().map(bytes).collect()
}
