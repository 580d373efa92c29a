//! The explanations of the captured graphs agree with their plans.

use std::sync::OnceLock;

use crate::support::{expect, in_parallel};
use lastuse::graph::order::ReorderEffort;
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{BufferSpec, GraphPlan, RuleSetting, Rules, TensorId};
use lastuse::placement::{self, Bytes, MemoryProfile};
use lastuse::report::explain::{Advice, BufferExplanation, Change, DEFAULT_TRIALS, Explanation, PlannedGraph, explain};
use lastuse_c_tests::{captured_graphs, graph_name, graphs_in, read_graph};

/// A captured graph with its explanation.
struct Explained {
    name: String,
    snapshot: Snapshot,
    /// By buffer: the bytes of ggml's own allocator, which were taken out of the snapshot.
    measured: Vec<Option<Bytes>>,
    buffers: Vec<BufferSpec>,
    plan: GraphPlan,
    explanation: Explanation,
}

impl Explained {
    fn new(name: String, mut snapshot: Snapshot, rules: Rules) -> Self {
        let measured = snapshot.buffers.iter_mut().map(|buffer| buffer.ggml_alloc_size.take()).collect();
        let buffers = snapshot.buffers(rules, placement::Effort::default());
        let plan = snapshot.plan_in(&buffers).expect("captured graphs are small enough");
        let same_memory: Vec<TensorId> = (0..).take(snapshot.tensors.len()).collect();
        let allowed = vec![Rules::ALL; buffers.len()];
        let (buffers_of, same_memory) = (&buffers, &same_memory);
        let (plan_of, trials) = (&plan, DEFAULT_TRIALS);
        let subject = PlannedGraph {
            snapshot: &snapshot,
            buffers: buffers_of,
            allowed: &allowed,
            same_memory,
            plan: plan_of,
            trials,
        };
        let explanation = explain(subject);
        Self { name, snapshot, measured, buffers, plan, explanation }
    }

    fn of_all(rules: Rules) -> Vec<Self> {
        let files = expect(graphs_in(&captured_graphs()));
        in_parallel(&files, |file| Self::new(graph_name(file), expect(read_graph(file)), rules))
    }

    fn bound(&self, buffer: &BufferExplanation) -> Bytes {
        self.plan.buffers[buffer.id].lower_bound
    }
}

/// The graphs with all rules, planned once.
fn all() -> &'static [Explained] {
    static ALL: OnceLock<Vec<Explained>> = OnceLock::new();
    ALL.get_or_init(|| Explained::of_all(Rules::ALL))
}

#[test]
fn listed_blocks_are_those_live_at_the_peak() {
    for explained in all() {
        let Explained { name, plan, .. } = explained;
        for buffer in &explained.explanation.buffers {
            let peak = buffer.peak.as_ref().expect("captured graphs need memory");
            let listed: Bytes = peak.live.iter().map(|block| block.bytes).sum();
            let loads = MemoryProfile::of(&plan.problems[buffer.id]).live;
            assert_eq!(listed, loads[peak.node.step as usize], "{name}");
            assert_eq!([peak.bytes, explained.bound(buffer), buffer.lower_bound], [listed; 3], "{name}");
            let others = peak.as_high.iter().flat_map(|&(first, last)| first..=last);
            assert!(others.clone().all(|step| step != peak.node.step && loads[step as usize] == listed), "{name}");
            assert_eq!(others.count() + 1, loads.iter().filter(|load| **load == listed).count(), "{name}");
            assert!(peak.live.iter().all(|block| !block.tensors.is_empty()), "{name}: a block has no tensor");
        }
    }
}

#[test]
fn every_change_is_tried() {
    for Explained { name, explanation, .. } in all() {
        assert!(explanation.all_tried, "{name}");
    }
}

#[test]
fn listed_reuse_is_that_of_the_plan() {
    for Explained { name, plan, explanation, .. } in all() {
        let in_place = plan.allocations.iter().flatten().filter(|allocation| allocation.in_place_of.is_some()).count();
        let reused: usize = explanation.buffers.iter().map(|buffer| buffer.reuse.in_place.len()).sum();
        assert_eq!(reused, in_place, "{name}");
    }
}

#[test]
fn computed_size_of_ggml_alloc_is_the_measured_one() {
    for Explained { name, measured, explanation, .. } in all() {
        let computed: Vec<_> = explanation.buffers.iter().map(|buffer| buffer.ggml_alloc).collect();
        assert_eq!(&computed, measured, "{name}");
    }
}

/// Returns the lower bound after a change, if the library has a function for it.
fn changed_bound(explained: &Explained, advice: &Advice, buffer: &BufferExplanation) -> Option<Bytes> {
    let (mut snapshot, buffers) = (explained.snapshot.clone(), &explained.buffers);
    let plan = match &advice.change {
        Change::Rule { rule, .. } => {
            let setting: RuleSetting = rule.parse().expect("the rule is known");
            let with = |buffer: &BufferSpec| BufferSpec { rules: setting.rules(buffer.rules), ..*buffer };
            snapshot.plan_in(&buffers.iter().map(with).collect::<Vec<_>>())
        }
        Change::AllRules => snapshot.plan(Rules::ALL),
        Change::Reorder { moved } => {
            let found = snapshot.reorder(buffers, ReorderEffort::default()).expect("captured graphs are small enough");
            assert_eq!(found.moved, *moved);
            snapshot.plan_in(buffers)
        }
        _ => return None,
    };
    Some(plan.expect("captured graphs are small enough").buffers[buffer.id].lower_bound)
}

#[test]
fn changes_save_as_much_as_predicted() {
    let mut made = 0;
    for explained in all().iter().chain(&Explained::of_all(Rules::GGML)) {
        for buffer in &explained.explanation.buffers {
            for advice in &buffer.advice {
                let (name, change) = (&explained.name, &advice.change);
                assert_eq!(advice.lower_bound + advice.saves, buffer.lower_bound, "{name}: {change}");
                let changed = changed_bound(explained, advice, buffer);
                made += usize::from(changed.is_some());
                assert!(changed.is_none_or(|bound| bound == advice.lower_bound), "{name}: {change}");
            }
        }
    }
    assert!(made > 100, "only {made} changes could be made");
}
