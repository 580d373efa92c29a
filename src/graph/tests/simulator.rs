//! The simulator finds and names the errors of a plan.

use crate::graph::{Corruption, Flags, GraphPlan, InPlace, Rules, Slots, TensorId, View};

use super::sketch::{List, Sketch, allocation, location};

/// Two leafs, and three nodes that all have their own memory; the first is read by the second and the third.
fn sample() -> (Sketch, [TensorId; 5]) {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let y = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let b = sketch.node(64, &[a, y]);
    let c = sketch.node(64, &[b, a]);
    (sketch, [x, y, a, b, c])
}

/// A correct plan but for the block of one tensor, which is at the location of another's.
fn moved(sketch: &Sketch, tensor: TensorId, onto: TensorId) -> GraphPlan {
    let mut plan = sketch.plan(Rules::GGML);
    *location(&mut plan, tensor) = *location(&mut plan, onto);
    plan
}

#[test]
fn tensor_beyond_its_chunk() {
    let (sketch, [x, ..]) = sample();
    let mut plan = sketch.plan(Rules::ALL);
    location(&mut plan, x).offset = plan.buffers[0].placement.size() - 63;
    assert_eq!(sketch.simulate(&plan), Err(Corruption::OutOfChunk(x)));
    location(&mut plan, x).offset = u64::MAX - 1;
    assert_eq!(sketch.simulate(&plan), Err(Corruption::OutOfChunk(x)), "the end wraps");
}

#[test]
fn tensor_in_a_missing_chunk() {
    let (sketch, [_, _, _, _, c]) = sample();
    let mut plan = sketch.plan(Rules::ALL);
    location(&mut plan, c).chunk = 7;
    assert_eq!(sketch.simulate(&plan), Err(Corruption::OutOfChunk(c)));
}

#[test]
fn tensor_without_memory() {
    let (sketch, [x, y, a, b, c]) = sample();
    for id in [x, y, a, b, c] {
        let mut plan = sketch.plan(Rules::ALL);
        plan.allocations[id as usize] = None;
        assert_eq!(sketch.simulate(&plan), Err(Corruption::NoMemory(id)));
    }
}

#[test]
fn inputs_that_share_bytes() {
    let (mut sketch, [x, y, ..]) = sample();
    let shared = Err(Corruption::SharedStart { first: x, second: y });
    assert_eq!(sketch.simulate(&moved(&sketch, y, x)), shared);
    sketch.flag(y, Flags::INPUT);
    sketch.draft(y).list = List::None;
    assert_eq!(sketch.simulate(&moved(&sketch, y, x)), shared);
}

#[test]
fn value_overwritten_before_its_last_reader() {
    let (sketch, [_, y, a, b, c]) = sample();
    let step_of_b = Corruption::Overwritten { step: 1, expected: y, found: Some(a) };
    assert_eq!(sketch.simulate(&moved(&sketch, a, y)), Err(step_of_b));
    let mut longer = sketch;
    let other = longer.node(64, &[c]);
    longer.node(64, &[a, other]);
    let last_step = Corruption::Overwritten { step: 4, expected: a, found: Some(other) };
    assert_eq!(longer.simulate(&moved(&longer, other, a)), Err(last_step));
    assert_eq!(allocation(&longer.live_ranges(Rules::GGML), b).in_place_of, None);
}

#[test]
fn value_overwritten_in_part() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[]);
    sketch.node(64, &[x, a]);
    for (at_x, at_a) in [(0, 48), (48, 0), (0, 0)] {
        let mut plan = sketch.plan(Rules::ALL);
        location(&mut plan, x).offset = at_x;
        location(&mut plan, a).offset = at_a;
        let overwritten = Corruption::Overwritten { step: 1, expected: x, found: Some(a) };
        assert_eq!(sketch.simulate(&plan), Err(overwritten));
    }
}

#[test]
fn view_of_an_overwritten_root() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let root = sketch.node(64, &[x]);
    let view = sketch.view(root, 32, 32);
    let a = sketch.node(16, &[x]);
    sketch.node(64, &[view, a]);
    let mut plan = sketch.plan(Rules::ALL);
    location(&mut plan, a).offset = location(&mut plan, root).offset + 32;
    let overwritten = Corruption::Overwritten { step: 3, expected: root, found: Some(a) };
    assert_eq!(sketch.simulate(&plan), Err(overwritten));
    location(&mut plan, a).offset -= 16;
    assert_eq!(sketch.simulate(&plan), Ok(()), "no node reads the bytes before the view");
}

#[test]
fn node_over_a_source_that_it_still_reads() {
    let (mut sketch, [x, _, a, b, c]) = sample();
    let over_x = Err(Corruption::OverwritesSource { step: 0, source: x });
    let mut plan = moved(&sketch, a, x);
    assert_eq!(sketch.simulate(&plan), over_x);
    sketch.draft(a).tensor.in_place = InPlace::Listed(Slots::ALL);
    let end = plan.buffers[0].placement.size();
    plan.buffers[0].placement.chunks[0] += 80;
    location(&mut plan, x).offset = end;
    location(&mut plan, a).offset = end + 16;
    assert_eq!(sketch.simulate(&plan), over_x, "in place means at the same byte");
    sketch.draft(c).sources = vec![b, b];
    let plan = moved(&sketch, c, b);
    sketch.draft(c).tensor.in_place = InPlace::Listed(Slots::ALL);
    let over_b = Err(Corruption::OverwritesSource { step: 2, source: b });
    assert_eq!(sketch.simulate(&plan), over_b, "a source that is named twice");
}

#[test]
fn node_over_a_root_that_it_also_reads_through_a_view() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let view = sketch.view(x, 0, 64);
    let sum = sketch.in_place(64, &[x, view]);
    let found = sketch.simulate(&moved(&sketch, sum, x));
    assert_eq!(found, Err(Corruption::OverwritesSource { step: 1, source: x }));
}

#[test]
fn node_over_a_source_of_another_layout() {
    let (mut sketch, [x, _, a, ..]) = sample();
    sketch.draft(a).tensor.in_place = InPlace::Listed(Slots::ALL);
    sketch.draft(a).layout.nb[1] = 128;
    let found = sketch.simulate(&moved(&sketch, a, x));
    assert_eq!(found, Err(Corruption::OverwritesSource { step: 0, source: x }));
}

#[test]
fn result_that_is_gone_at_the_end() {
    let (mut sketch, [x, _, a, b, c]) = sample();
    sketch.flag(x, Flags::OUTPUT);
    let lost = |expected, found| Err(Corruption::LostResult { expected, found: Some(found) });
    assert_eq!(sketch.simulate(&moved(&sketch, b, x)), lost(x, b));
    let unread = sketch.node(64, &[x]);
    let last = sketch.node(64, &[a]);
    assert_eq!(sketch.simulate(&moved(&sketch, last, unread)), lost(unread, last));
    assert_eq!(sketch.simulate(&moved(&sketch, last, c)), lost(c, last));
}

#[test]
fn leaf_without_readers_that_is_gone_at_the_end() {
    let mut sketch = Sketch::new();
    let unread = sketch.leaf(64);
    let x = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let found = sketch.simulate(&moved(&sketch, a, unread));
    assert_eq!(found, Err(Corruption::LostResult { expected: unread, found: Some(a) }));
}

#[test]
fn root_of_an_output_view_that_is_gone_at_the_end() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let root = sketch.node(64, &[x]);
    let view = sketch.view(root, 0, 16);
    let a = sketch.node(64, &[view, root]);
    let last = sketch.node(64, &[a]);
    sketch.flag(view, Flags::OUTPUT);
    let found = sketch.simulate(&moved(&sketch, last, root));
    assert_eq!(found, Err(Corruption::LostResult { expected: root, found: Some(last) }));
}

#[test]
fn root_that_is_read_through_views_alone_is_not_a_result() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let root = sketch.node(64, &[x]);
    let view = sketch.unlisted_view(root, 0, 64);
    let a = sketch.node(64, &[view]);
    let b = sketch.node(64, &[a]);
    sketch.node(64, &[b]);
    let plan = sketch.plan(Rules::GGML);
    assert_eq!(plan.buffers[0].placement.size(), 128);
}

#[test]
fn unlisted_tensor_that_only_unlisted_tensors_read_is_not_a_result() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let root = sketch.node(64, &[x]);
    let inner = sketch.unlisted_view(root, 0, 64);
    let outer = sketch.unlisted_view(root, 0, 64);
    sketch.draft(outer).sources = vec![inner];
    let a = sketch.node(64, &[outer]);
    let b = sketch.node(64, &[a]);
    sketch.node(64, &[b]);
    sketch.plan(Rules::GGML);
}

#[test]
fn view_beyond_the_end_of_its_root_reads_nothing() {
    for offset in [64, 65, 1000, u64::MAX] {
        let mut sketch = Sketch::new();
        let leafs = [(); 4].map(|()| sketch.leaf(64));
        let views = leafs.map(|leaf| sketch.view(leaf, offset, 16));
        sketch.node(64, &views);
        sketch.node(64, &leafs);
        sketch.plan(Rules::ALL);
    }
}

#[test]
fn bytes_beyond_the_size_of_a_tensor_may_be_overwritten() {
    let (mut sketch, ids) = sample();
    for id in ids {
        sketch.draft(id).nbytes = u64::MAX;
        sketch.draft(id).layout.nb = [u64::MAX; 4];
        sketch.draft(id).layout.ne = [i64::MAX, i64::MIN, -1, 0];
    }
    sketch.plan(Rules::ALL);
}

#[test]
fn views_may_overflow_the_address_space() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let view = sketch.view(x, 0, 16);
    sketch.draft(view).tensor.view = Some(View { root: x, offset: u64::MAX - 8 });
    sketch.draft(view).nbytes = u64::MAX;
    sketch.node(64, &[view]);
    sketch.plan(Rules::ALL);
}

#[test]
fn corruptions_name_tensors_and_steps() {
    let corruptions = [
        (Corruption::OutOfChunk(3), "tensor 3 reaches beyond its chunk"),
        (Corruption::NoMemory(3), "tensor 3 is needed and has no memory"),
        (Corruption::SharedStart { first: 1, second: 2 }, "tensors 1 and 2 share bytes before the first step"),
        (
            Corruption::Overwritten { step: 4, expected: 1, found: Some(2) },
            "step 4 reads tensor 1, but there is Some(2)",
        ),
        (Corruption::OverwritesSource { step: 4, source: 1 }, "step 4 overwrites its source 1"),
        (Corruption::LostResult { expected: 1, found: None }, "at the end 1 is required, but there is None"),
    ];
    for (corruption, text) in corruptions {
        assert_eq!(corruption.to_string(), text);
    }
}
