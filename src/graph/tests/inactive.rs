//! Nodes that no backend computes: those without the flag, in a graph in which others have it.

use crate::graph::{BufferIndex, BufferSpec, Flags, GraphPlan, Op, Rules, TensorId};
use crate::placement::Bytes;

use super::sketch::{BUFFER, List, Sketch, allocation, live_range};

/// A small input, the result of an alternative that was not selected, and a chain of three nodes that are computed.
struct Selected {
    sketch: Sketch,
    input: TensorId,
    alternative: TensorId,
    chain: [TensorId; 3],
}

fn selected(alternative: Bytes) -> Selected {
    let mut sketch = Sketch::new();
    let (input, unselected) = (sketch.leaf(64), sketch.leaf(64));
    [input, unselected].iter().for_each(|&id| sketch.flag(id, Flags::INPUT));
    let alternative = sketch.node(alternative, &[unselected]);
    let chain = add_chain(&mut sketch, input);
    Selected { sketch, input: unselected, alternative, chain }
}

/// Three nodes that are computed.
fn add_chain(sketch: &mut Sketch, source: TensorId) -> [TensorId; 3] {
    let mut last = source;
    [64, 128, 64].map(|size| {
        last = sketch.node(size, &[last]);
        sketch.flag(last, Flags::COMPUTE);
        last
    })
}

fn inactive(plan: &GraphPlan) -> Vec<TensorId> {
    plan.inactive_owners.iter().map(|node| node.tensor).collect()
}

#[test]
fn inactive_node_and_its_only_input_take_no_bytes_while_the_graph_runs() {
    let Selected { sketch, input, alternative, chain } = selected(96);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!((found.allocations[alternative as usize], live_range(&found, input)), (None, 0..1));
    assert_eq!(chain.map(|id| live_range(&found, id)), [1..3, 2..4, 3..4]);
    let plan = sketch.plan(Rules::ALL);
    assert_eq!((inactive(&plan), plan.buffers[0].placement.size()), (vec![alternative], 192));
    let without = Rules { inactive: false, ..Rules::ALL };
    assert_eq!(sketch.plan(without).buffers[0].placement.size(), 288);
    assert!(inactive(&sketch.plan(without)).is_empty());
}

#[test]
fn inactive_node_has_an_address_inside_the_buffer() {
    for (size, expected) in [(96, 192), (1000, 1008)] {
        let Selected { sketch, alternative, .. } = selected(size);
        let plan = sketch.plan(Rules::ALL);
        let (address, alloc_size) = plan.placed(alternative).expect("it has an address");
        assert_eq!((address.buffer, address.chunk, address.offset, alloc_size), (0, 0, 0, size));
        let buffer = &plan.buffers[0];
        assert_eq!((buffer.placement.size(), buffer.lower_bound), (expected, expected));
    }
}

#[test]
fn graph_in_which_no_node_has_the_flag_has_no_inactive_nodes() {
    let Selected { mut sketch, alternative, .. } = selected(96);
    sketch.drafts.iter_mut().for_each(|draft| draft.tensor.flags.0 &= !Flags::COMPUTE.0);
    let found = sketch.live_ranges(Rules::ALL);
    assert!(found.inactive.is_empty());
    assert_eq!(live_range(&found, alternative), 0..4);
}

#[test]
fn alternatives_of_several_nodes_are_inactive_as_a_whole() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let first = sketch.node(96, &[x]);
    let view = sketch.view(first, 0, 96);
    let second = sketch.node(96, &[view, x]);
    let written = sketch.copy(x, second, 96);
    add_chain(&mut sketch, x);
    let plan = sketch.plan(Rules::ALL);
    assert_eq!(inactive(&plan), [first, second]);
    assert!([view, written].iter().all(|&id| plan.is_inactive(id)));
}

#[test]
fn tensors_that_programs_may_read_are_not_inactive() {
    type Change = fn(&mut Sketch, TensorId);
    let changes: [(&str, Change); 6] = [
        ("an output", |sketch, id| sketch.flag(id, Flags::OUTPUT)),
        ("an input", |sketch, id| sketch.flag(id, Flags::INPUT)),
        ("a control dependency", |sketch, id| sketch.draft(id).tensor.op = Op::None),
        ("a source of a computed node", |sketch, id| sketch.drafts[5].sources.push(id)),
        ("the root of a view that a computed node reads", |sketch, id| {
            let view = sketch.unlisted_view(id, 0, 64);
            sketch.drafts[5].sources.push(view);
        }),
        ("the root of a VIEW that no node reads", |sketch, id| {
            let view = sketch.view(id, 0, 64);
            sketch.draft(view).tensor.op = Op::View;
        }),
    ];
    for (what, change) in changes {
        let Selected { mut sketch, alternative, .. } = selected(96);
        change(&mut sketch, alternative);
        let plan = sketch.plan(Rules::ALL);
        assert!(inactive(&plan).is_empty(), "{what}");
        assert!(plan.allocations[alternative as usize].is_some(), "{what}");
    }
}

#[test]
fn reads_of_inactive_nodes_do_not_count_where_others_read() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let [first, second, _] = add_chain(&mut sketch, x);
    sketch.node(16, &[first, x]);
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!([x, first, second].map(|id| live_range(&found, id)), [0..1, 0..2, 1..3]);
}

/// ggml does so too, so no plan is larger.
#[test]
fn computed_value_that_only_inactive_nodes_read_lasts_until_then() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let value = sketch.node(64, &[x]);
    sketch.flag(value, Flags::COMPUTE);
    sketch.node(16, &[value]);
    add_chain(&mut sketch, x);
    assert_eq!(live_range(&sketch.live_ranges(Rules::ALL), value), 0..2);
}

#[test]
fn unread_copy_of_the_scheduler_keeps_its_root() {
    let Selected { mut sketch, input, .. } = selected(96);
    let view = sketch.view(input, 0, 64);
    sketch.draft(view).tensor.op = Op::View;
    assert_eq!(live_range(&sketch.live_ranges(Rules::ALL), input), 0..5);
}

#[test]
fn rule_is_that_of_the_requested_buffer() {
    let mut sketch = Sketch::with_buffers(&[BUFFER, BUFFER]);
    let x = sketch.leaf(64);
    let alternatives = [0, 1].map(|buffer: BufferIndex| {
        let node = sketch.node(96, &[x]);
        sketch.draft(node).buffer = buffer;
        node
    });
    add_chain(&mut sketch, x);
    let buffers = [Rules::ALL, Rules { inactive: false, ..Rules::ALL }].map(|rules| BufferSpec { rules, ..BUFFER });
    let found = sketch.live_ranges_in(&buffers);
    assert_eq!(found.inactive, alternatives[..1]);
    assert!(found.allocations[alternatives[1] as usize].is_some());
}

/// ggml's own allocator computes it in place, and needs nothing for it in the requested buffer.
#[test]
fn inactive_node_has_the_address_of_its_in_place_source() {
    let mut sketch = Sketch::with_buffers(&[BUFFER, BUFFER]);
    let x = sketch.leaf(64);
    let [first, second] = [sketch.node(96, &[x]), sketch.node(96, &[x])];
    sketch.flag(first, Flags::COMPUTE);
    let nodes = [first, second].map(|source| {
        let node = sketch.in_place(96, &[source]);
        sketch.draft(node).buffer = 1;
        sketch.in_place(96, &[node])
    });
    add_chain(&mut sketch, x);
    let plan = sketch.plan(Rules::ALL);
    let addresses = nodes.map(|node| plan.placed(node).expect("it has an address").0);
    assert_eq!(plan.placed(first).map(|(address, _)| address), Some(addresses[0]));
    assert_eq!((addresses[1].buffer, plan.buffers[1].placement.size()), (0, 0));
}

/// ggml's own allocator computes the last node in place of `second`, since it keeps `first` for the inactive node.
#[test]
fn node_moves_to_another_buffer_where_ggml_would_move_it() {
    let mut sketch = Sketch::with_buffers(&[BUFFER, BUFFER]);
    let x = sketch.leaf(64);
    let [first, second] = [sketch.node(64, &[x]), sketch.node(64, &[x])];
    let last = sketch.in_place(64, &[first, second]);
    [first, second, last].iter().for_each(|&id| sketch.flag(id, Flags::COMPUTE));
    [first, last].iter().for_each(|&id| sketch.draft(id).buffer = 1);
    sketch.node(64, &[first]);
    assert_eq!(allocation(&sketch.live_ranges(Rules::ALL), last).buffer, 0);
}

/// A leaf in no list makes a graph one that is not known to be in order.
#[test]
fn order_of_the_tensors_does_not_matter() {
    let Selected { mut sketch, .. } = selected(96);
    let known = sketch.live_ranges(Rules::ALL);
    let extra = sketch.add(List::None, 16, &[]);
    sketch.draft(extra).tensor.external = true;
    let found = sketch.live_ranges(Rules::ALL);
    assert_eq!((known.inactive_owners, known.blocks[0].blocks()), (found.inactive_owners, found.blocks[0].blocks()));
}
