//! The addresses of tensors.

use crate::graph::{Address, BufferSpec, Flags, GraphPlan, PlanError, Requests, Rules, TensorId, Wishes, Workspace};

use super::sketch::{BUFFER, List, Sketch};

fn address(plan: &GraphPlan, id: TensorId) -> Address {
    plan.address(plan.allocations[id as usize].expect("the tensor has memory"))
}

fn offset(plan: &GraphPlan, id: TensorId) -> u64 {
    address(plan, id).offset
}

#[test]
fn chain_reuses_the_memory_of_the_step_before_last() {
    let mut sketch = Sketch::new();
    let mut chain = vec![sketch.leaf(64)];
    for _ in 0..6 {
        chain.push(sketch.node(64, &[chain[chain.len() - 1]]));
    }
    let plan = sketch.plan(Rules::ALL);
    assert_eq!((plan.buffers[0].placement.size(), plan.buffers[0].lower_bound), (128, 128));
    for pair in chain.windows(3) {
        assert_eq!(offset(&plan, pair[0]), offset(&plan, pair[2]));
        assert_ne!(offset(&plan, pair[0]), offset(&plan, pair[1]));
    }
}

#[test]
fn chain_in_place_needs_one_block() {
    let mut sketch = Sketch::new();
    let mut last = sketch.leaf(64);
    for _ in 0..6 {
        last = sketch.in_place(64, &[last]);
    }
    let plan = sketch.plan(Rules::GGML);
    assert_eq!((plan.problems[0].blocks().len(), plan.buffers[0].placement.size()), (1, 64));
}

#[test]
fn reuse_through_a_view_saves_a_block() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(16);
    let root = sketch.node(64, &[x]);
    let view = sketch.view(root, 0, 64);
    let b = sketch.in_place(64, &[view]);
    sketch.node(16, &[b]);
    let sizes = [Rules::GGML, Rules::ALL].map(|rules| sketch.plan(rules).buffers[0].placement.size());
    assert_eq!(sizes, [128, 80]);
}

#[test]
fn tail_of_a_larger_in_place_source_is_used_by_the_next_node() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(16);
    let larger = sketch.node(64, &[x]);
    let smaller = sketch.in_place(64, &[larger]);
    let next = sketch.node(64, &[smaller]);
    sketch.node(16, &[next, smaller]);
    sketch.draft(larger).size = 128;
    let plan = sketch.plan(Rules::GGML);
    assert_eq!(offset(&plan, smaller), offset(&plan, larger));
    assert_eq!(offset(&plan, next), offset(&plan, larger) + 64);
    assert_eq!(plan.buffers[0].placement.size(), 144);
}

#[test]
fn inputs_never_share_bytes() {
    let mut sketch = Sketch::new();
    let first = sketch.leaf(64);
    let second = sketch.leaf(64);
    let a = sketch.node(16, &[first]);
    let b = sketch.node(16, &[a]);
    sketch.node(16, &[b, second]);
    for input in [first, second] {
        sketch.flag(input, Flags::INPUT);
    }
    let plan = sketch.plan(Rules::ALL);
    assert!(offset(&plan, first).abs_diff(offset(&plan, second)) >= 64);
}

#[test]
fn each_buffer_is_planned_apart() {
    let coarse = BufferSpec { alignment: 256, max_chunk: Some(256), ..BUFFER };
    let mut sketch = Sketch::with_buffers(&[BUFFER, coarse]);
    let x = sketch.leaf(64);
    let [a, b] = [64, 65].map(|size| sketch.node(size, &[x]));
    let c = sketch.node(64, &[a, b]);
    for id in [a, b] {
        sketch.draft(id).buffer = 1;
    }
    let plan = sketch.plan(Rules::ALL);
    let sizes: Vec<_> = plan.buffers.iter().map(|buffer| buffer.placement.chunks.clone()).collect();
    assert_eq!(sizes, [vec![64], vec![256, 256]]);
    assert_eq!([x, a, b, c].map(|id| address(&plan, id).buffer), [0, 1, 1, 0]);
    assert_ne!(address(&plan, a).chunk, address(&plan, b).chunk);
}

#[test]
fn leafs_of_a_graph_without_nodes_are_planned() {
    let mut sketch = Sketch::new();
    for size in [64, 16] {
        sketch.leaf(size);
    }
    assert_eq!(sketch.plan(Rules::ALL).buffers[0].placement.size(), 80);
}

#[test]
fn empty_graph_needs_no_memory() {
    let plan = Sketch::with_buffers(&[BUFFER, BUFFER]).plan(Rules::ALL);
    assert_eq!(plan.buffers.len(), 2);
    assert!(plan.buffers.iter().all(|buffer| buffer.placement.size() == 0 && buffer.is_optimal()));
    assert_eq!(plan.allocations, []);
}

#[test]
fn sizes_that_add_up_to_too_much_are_refused() {
    let mut sketch = Sketch::with_buffers(&[BUFFER, BUFFER]);
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    sketch.draft(a).buffer = 1;
    for size in [u64::MAX, u64::MAX - 15, 1 << 63] {
        sketch.draft(a).size = size;
        let refused = sketch.try_plan(Rules::ALL);
        assert!(matches!(refused, Err(PlanError::TooLarge { buffer: 1, .. })), "{size}");
    }
    let message = PlanError::TooLarge { buffer: 1, bytes: u64::MAX }.to_string();
    assert_eq!(message, "the tensors of buffer 1 add up to 18446744073709551615 bytes, more than can be addressed");
    sketch.draft(a).size = (1 << 63) - 16;
    assert!(sketch.try_plan(Rules::ALL).is_ok());
}

#[test]
fn operand_is_computed_inside_a_concat_only_at_an_aligned_address() {
    for (first, is_inside) in [(32, true), (24, false)] {
        let mut sketch = Sketch::new();
        let x = sketch.leaf(16);
        let (a, b) = (sketch.node(first, &[x]), sketch.node(64, &[x]));
        let joined = sketch.concat([a, b], first + 64);
        sketch.node(16, &[joined]);
        let plan = sketch.plan(Rules::ALL);
        assert!(offset(&plan, b).is_multiple_of(BUFFER.alignment), "after {first} bytes");
        assert_eq!(offset(&plan, b) == offset(&plan, joined) + first, is_inside, "after {first} bytes");
    }
}

/// The plan of ggml's own allocator comes first, and its sizes are used again.
#[test]
fn size_in_another_buffer_is_not_taken_for_that_in_this_one() {
    let mut sketch = Sketch::with_buffers(&[BUFFER, BUFFER]);
    let x = sketch.leaf(64);
    sketch.flag(x, Flags::INPUT);
    let a = sketch.node(64, &[x]);
    let b = sketch.in_place(64, &[a]);
    let last = sketch.node(64, &[b, x]);
    // ggml's own plan is none for a graph with retained tensors.
    sketch.retain(last, None);
    sketch.draft(b).buffer = 1;
    let (leafs, nodes) = (sketch.requests(List::Leafs), sketch.requests(List::Nodes));
    let requests = Requests { leafs: &leafs, nodes: &nodes };
    let mut sizes = |id: TensorId, buffer| if (id, buffer) == (b, 0) { 128 } else { 64 };
    let buffers = sketch.buffers_with(Rules { keep_inputs: true, ..Rules::ALL });
    let workspace = &mut Workspace::default();
    let plan = crate::graph::plan(&sketch.graph(), &buffers, requests, &mut sizes, Wishes::default(), workspace);
    let plan = plan.expect("sizes are small");
    assert_eq!(address(&plan, b).buffer, 1, "it does not fit into the memory of its source");
}
