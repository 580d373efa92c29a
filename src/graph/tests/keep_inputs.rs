//! Inputs that are intact after a run at the addresses of ggml's own allocator are intact at those of lastuse.

use crate::graph::{
    AddressMap, BufferIndex, Corruption, Flags, GraphPlan, Op, Requests, Rules, TensorId, intact_inputs, plan_as_ggml,
    read_inputs, simulate_again,
};
use crate::placement::Bytes;
use crate::testing::Random;

use super::random::{random_sketch, random_sketch_in_order};
use super::sketch::{List, Sketch};

const KEPT: Rules = Rules { keep_inputs: true, ..Rules::ALL };

fn by_ggml(sketch: &Sketch) -> GraphPlan {
    let (leafs, nodes) = (sketch.requests(List::Leafs), sketch.requests(List::Nodes));
    let requests = Requests { leafs: &leafs, nodes: &nodes };
    let mut sizes = |id: TensorId, _: BufferIndex| sketch.drafts[id as usize].size;
    plan_as_ggml(&sketch.graph(), &sketch.buffers, requests, &mut sizes).expect("sizes are small")
}

/// The inputs that a second run finds overwritten.
fn lost(sketch: &Sketch, plan: &GraphPlan) -> Vec<TensorId> {
    let nbytes: Vec<Bytes> = sketch.drafts.iter().map(|draft| draft.nbytes).collect();
    let found = simulate_again(&sketch.graph(), &AddressMap::of_plan(plan), &nbytes);
    let input = |corruption| match corruption {
        Corruption::Overwritten { expected, .. } => expected,
        other => panic!("{other}"),
    };
    found.into_iter().map(|finding| input(finding.corruption)).collect()
}

fn size(plan: &GraphPlan) -> Bytes {
    plan.buffers.iter().map(|buffer| buffer.placement.size()).sum()
}

/// A small input, a result that the last node needs, and larger nodes between them: best fit never uses the hole that
/// the input leaves.
fn with_hole() -> (Sketch, TensorId) {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(32);
    let r = sketch.node(64, &[x]);
    let mut last = r;
    for _ in 0..3 {
        last = sketch.node(64, &[last]);
    }
    sketch.node(64, &[last, r]);
    (sketch, x)
}

#[test]
fn input_that_ggml_leaves_intact_is_kept() {
    let (sketch, x) = with_hole();
    assert!(lost(&sketch, &by_ggml(&sketch)).is_empty());
    for base in [Rules::ALL, Rules::GGML] {
        assert_eq!(lost(&sketch, &sketch.plan(base)), [x], "the rule is of use here");
        let plan = sketch.plan(Rules { keep_inputs: true, ..base });
        assert_eq!((lost(&sketch, &plan), size(&plan)), (vec![], size(&by_ggml(&sketch))));
    }
}

#[test]
fn input_that_ggml_overwrites_takes_no_memory_of_others() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let mut last = x;
    for _ in 0..4 {
        last = sketch.in_place(64, &[last]);
    }
    assert_eq!(lost(&sketch, &by_ggml(&sketch)), [x], "in place");
    assert_eq!(size(&sketch.plan(KEPT)), 64);
}

#[test]
fn input_that_no_node_reads_may_still_be_overwritten() {
    let (mut sketch, _) = with_hole();
    let unread = sketch.leaf(64);
    sketch.flag(unread, Flags::INPUT);
    assert_eq!(read_inputs(&sketch.graph()), [0]);
    assert_eq!(size(&sketch.plan(KEPT)) + 64, size(&by_ggml(&sketch)));
}

/// As ggml lists parameters. Nodes before it would take less memory where it is.
#[test]
fn input_among_the_nodes_is_kept_from_the_start() {
    let mut sketch = Sketch::new();
    let a = sketch.node(64, &[]);
    let b = sketch.node(64, &[a]);
    let weight = sketch.node(128, &[]);
    sketch.draft(weight).tensor.op = Op::None;
    sketch.node(16, &[b, weight]);
    assert!(lost(&sketch, &by_ggml(&sketch)).is_empty());
    assert_eq!(lost(&sketch, &sketch.plan(Rules::ALL)), [weight], "the rule is of use here");
    assert!(lost(&sketch, &sketch.plan(KEPT)).is_empty());
}

#[test]
fn what_nodes_write_into_views_of_an_input_is_kept() {
    let (mut sketch, x) = with_hole();
    let y = sketch.leaf(32);
    let copied = sketch.copy(y, x, 32);
    sketch.node(64, &[copied]);
    assert!(intact_inputs(&sketch.graph(), &by_ggml(&sketch)).contains(&(x, 0)));
    assert!(lost(&sketch, &sketch.plan(KEPT)).is_empty());
}

/// Nodes that backends skip write nothing, even where a view of them is read.
#[test]
fn memory_of_skipped_nodes_leaves_inputs_intact() {
    for has_view in [false, true] {
        check_memory_of_skipped_nodes(has_view);
    }
}

fn check_memory_of_skipped_nodes(has_view: bool) {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let skipped = sketch.node(64, &[a]);
    let b = sketch.node(128, &[a]);
    sketch.node(128, &[b]);
    if has_view {
        let view = sketch.view(skipped, 0, 64);
        sketch.draft(view).tensor.op = Op::View;
    }
    sketch.drafts.iter_mut().filter(|draft| draft.list == List::Nodes).for_each(|draft| {
        draft.tensor.flags.0 |= Flags::COMPUTE.0;
    });
    sketch.draft(skipped).tensor.flags = Flags::default();
    let plan = by_ggml(&sketch);
    assert_eq!(plan.placed(x).map(|(at, _)| at.offset), plan.placed(skipped).map(|(at, _)| at.offset));
    assert_eq!(intact_inputs(&sketch.graph(), &plan), [(x, 0)]);
    assert!(lost(&sketch, &sketch.plan(KEPT)).is_empty());
}

/// As some kernels do with intermediate values.
#[test]
fn bytes_of_a_node_after_its_elements_leave_inputs_intact() {
    let mut sketch = Sketch::new();
    let (x, y) = (sketch.leaf(64), sketch.leaf(64));
    let sum = sketch.node(64, &[x, y]);
    let large = sketch.node(64, &[sum]);
    sketch.draft(large).size = 128;
    let plan = by_ggml(&sketch);
    assert_eq!(plan.placed(large).map(|(at, _)| at.offset), plan.placed(x).map(|(at, _)| at.offset));
    assert_eq!((lost(&sketch, &plan), intact_inputs(&sketch.graph(), &plan)), (vec![x], vec![(y, 0)]));
    assert!(!lost(&sketch, &sketch.plan(KEPT)).contains(&y));
}

#[test]
fn setting_an_input_writes_only_its_elements() {
    let mut sketch = Sketch::new();
    let (x, y) = (sketch.leaf(48), sketch.leaf(16));
    let sum = sketch.node(64, &[x, y]);
    let unlisted = sketch.add(List::None, 16, &[]);
    sketch.draft(unlisted).size = 49;
    sketch.node(64, &[sum, unlisted]);
    let plan = by_ggml(&sketch);
    assert_eq!(plan.placed(unlisted).map(|(at, _)| at.offset), plan.placed(x).map(|(at, _)| at.offset));
    assert_eq!((lost(&sketch, &plan), intact_inputs(&sketch.graph(), &plan)), (vec![x], vec![(y, 0)]));
    assert!(!lost(&sketch, &sketch.plan(KEPT)).contains(&y));
}

/// Nothing but a part of an input is read, and the rest is overwritten.
#[test]
fn views_and_markers_read_nothing_of_an_input() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(128);
    let (empty, upper) = (sketch.unlisted_view(x, 0, 0), sketch.view(x, 64, 64));
    sketch.draft(upper).tensor.op = Op::View;
    let read = sketch.node(64, &[empty, upper]);
    sketch.marker(&[x]);
    let over = sketch.node(64, &[read]);
    let plan = by_ggml(&sketch);
    assert_eq!(plan.placed(over).map(|(at, _)| at.offset), plan.placed(x).map(|(at, _)| at.offset));
    assert_eq!((lost(&sketch, &plan), intact_inputs(&sketch.graph(), &plan)), (vec![], vec![(x, 0)]));
}

/// The scheduler copies what such a view is of, and the program may read it.
#[test]
fn view_that_only_markers_use_is_read() {
    for has_marker in [false, true] {
        let mut sketch = Sketch::new();
        let x = sketch.leaf(64);
        let view = sketch.view(x, 0, 64);
        sketch.draft(view).tensor.op = Op::View;
        if has_marker {
            sketch.marker(&[view]);
        }
        let last = sketch.node(64, &[]);
        sketch.flag(last, Flags::COMPUTE);
        assert_eq!(read_inputs(&sketch.graph()), [x]);
    }
}

#[test]
fn random_graphs_keep_inputs_as_ggml_does_and_are_never_larger() {
    let mut random = Random::new(43);
    let (mut kept, mut saved) = (0, 0);
    for round in 0..2000 {
        let sketch = if round % 2 == 0 { random_sketch(&mut random) } else { random_sketch_in_order(&mut random) };
        let ggml = by_ggml(&sketch);
        let lost_by_ggml = lost(&sketch, &ggml);
        let intact = intact_inputs(&sketch.graph(), &ggml);
        assert!(intact.iter().all(|(input, _)| !lost_by_ggml.contains(input)), "round {round}");
        for rules in [KEPT, Rules { keep_inputs: true, ..Rules::GGML }] {
            let (plan, without) = (sketch.plan(rules), sketch.plan(Rules { keep_inputs: false, ..rules }));
            let is_new = |input: &TensorId| intact.iter().any(|(known, _)| known == input);
            assert!(!lost(&sketch, &plan).iter().any(is_new), "round {round}, {rules}");
            saved += lost(&sketch, &without).iter().filter(|&input| is_new(input)).count();
            for (ours, theirs) in plan.buffers.iter().zip(&ggml.buffers) {
                assert!(ours.placement.size() <= theirs.placement.size(), "round {round}, {rules}");
                assert!(ours.placement.chunks.len() <= theirs.placement.chunks.len(), "round {round}, {rules}");
            }
        }
        kept += intact.len();
    }
    assert!(kept > 1000 && saved > 500, "poor graphs: {kept} inputs are kept, {saved} would be lost");
}
