//! Recomputed graphs compute the values of the given ones.

use std::collections::HashSet;

use crate::graph::recompute::Recomputation;
use crate::graph::{Requests, Rules, TensorId, Wishes, Workspace, plan, simulate};
use crate::placement::{Bytes, Step, validate};
use crate::testing::Random;

use super::evaluation;
use super::training::random_training;
use super::{Case, RULES};
use crate::graph::tests::sketch::List;

/// Asserts that a recomputation computes the values of the given graph, and needs the memory that it reports.
pub fn assert_correct(case: &Case, found: &Recomputation, rules: Rules) {
    assert_values(case, found);
    assert_order(case, found);
    assert_needs(case, found, rules);
}

fn assert_values(case: &Case, found: &Recomputation) {
    let (given, rebuilt) = (evaluation::given(case), evaluation::rebuilt(case, found));
    assert_eq!(given.nodes.len(), rebuilt.nodes.len());
    for (node, value) in &given.nodes {
        assert_eq!(rebuilt.nodes.get(node), Some(value), "node {node}: {:?}", found.items);
    }
    for (node, value) in &rebuilt.copies {
        assert_eq!(given.nodes.get(node), Some(value), "copy of {node}: {:?}", found.items);
    }
    assert_eq!(given.end, rebuilt.end, "{:?}", found.items);
}

/// Each node runs once, each forward result at most once more, and the last node last.
fn assert_order(case: &Case, found: &Recomputation) {
    let graph = case.sketch.graph();
    let once: Vec<Step> = found.items.iter().filter(|item| !item.again).map(|item| item.step).collect();
    assert_eq!((once.len(), once.iter().collect::<HashSet<_>>().len()), (graph.nodes().len(), graph.nodes().len()));
    assert!(case.hazards().allow(&once), "{once:?}");
    let again: Vec<Step> = found.again().collect();
    assert!(again.windows(2).all(|pair| pair[0] < pair[1]), "a result is computed three times: {again:?}");
    assert!(again.iter().all(|&step| step < found.boundary), "{again:?}");
    assert_eq!(found.items.last().map(|item| (item.step as usize, item.again)), Some((graph.nodes().len() - 1, false)));
    let work: u64 = graph.nodes().iter().map(|&node| case.work[node as usize]).sum();
    let extra: u64 = again.iter().map(|&step| case.work[graph.nodes()[step as usize] as usize]).sum();
    assert_eq!((found.before.work, found.after.work), (work, work + extra));
}

/// The plan of the rebuilt graph is correct, and its bytes are those that were found.
fn assert_needs(case: &Case, found: &Recomputation, rules: Rules) {
    let edited = &found.edited;
    let draft = |id: TensorId| &case.sketch.drafts[edited.origins[id as usize] as usize];
    let requests = Requests { leafs: &case.sketch.requests(List::Leafs), nodes: &found.node_buffers };
    let buffers = case.sketch.buffers_with(rules);
    let plan = plan(
        &edited.graph,
        &buffers,
        requests,
        &mut |id: TensorId, _| draft(id).size,
        Wishes::default(),
        &mut Workspace::default(),
    )
    .expect("small sizes");
    for (problem, buffer) in plan.problems.iter().zip(&plan.buffers) {
        assert_eq!(validate(problem, &buffer.placement), Ok(()));
    }
    let nbytes: Vec<Bytes> = (0..).take(edited.origins.len()).map(|id| draft(id).nbytes).collect();
    assert_eq!(simulate(&edited.graph, &plan, &nbytes), Ok(()), "{:?}", found.items);
    let bytes = plan.buffers.iter().map(|buffer| buffer.placement.size()).sum();
    assert_eq!((found.before.bytes, found.after.bytes), (case.given_bytes(rules), bytes));
}

#[test]
fn random_graphs_compute_the_given_values() {
    let mut random = Random::new(51);
    let (mut again, mut moved, mut met) = (0, 0, 0);
    for round in 0..2500 {
        let case = random_training(&mut random);
        let rules = [RULES, Rules::ALL, Rules::GGML, Rules::NONE][random.below(4) as usize];
        let given = case.given_bytes(rules);
        for percent in [0, 30 + u64::from(random.below(65))] {
            let budget = given * percent / 100;
            let effort = [0, 1, 500, 100_000][random.below(4) as usize];
            let found = case.search(rules, budget, effort, &mut |_| true);
            let found = found.unwrap_or_else(|error| panic!("graph {round}: {error}"));
            assert_correct(&case, &found, rules);
            again += found.again().count();
            let once = found.items.iter().filter(|item| !item.again);
            moved += usize::from(!once.is_sorted_by_key(|item| item.step));
            met += usize::from(found.after.bytes <= budget);
        }
    }
    assert!(again > 3000 && moved > 200 && met > 100, "poor graphs: {again} nodes again, {moved} moved, {met} met");
}

#[test]
fn same_graph_gives_same_recomputation() {
    let mut random = Random::new(52);
    for _ in 0..100 {
        let case = random_training(&mut random);
        let budget = case.given_bytes(RULES) * 6 / 10;
        let (first, second) = (case.recomputed(budget), case.recomputed(budget));
        assert_eq!((first.items, first.before, first.after), (second.items, second.before, second.after));
    }
}
