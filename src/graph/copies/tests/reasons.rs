//! Why copies stay.

use super::*;

/// Asserts why a copy of a result into a cache stays after `change` of the three.
fn left(reason: Reason, change: impl FnOnce(&mut Scene, [TensorId; 3])) {
    let mut scene = Scene::new();
    let (x, cache) = (scene.input([8, 2, 1, 1]), scene.cache([8, 2, 1, 1]));
    let product = scene.node([8, 2, 1, 1], &[x]);
    let copy = scene.copy(product, cache);
    scene.assert_removed(&[copy]);
    change(&mut scene, [product, copy, cache]);
    scene.assert_left(reason);
}

#[test]
fn copy_to_another_type() {
    left(Reason::Type, |scene, [_, copy, _]| scene.sketch.draft(copy).layout.element = 1);
}

#[test]
fn flagged_producers_and_copies() {
    for flag in [1, 2, 4, 8] {
        left(Reason::Producer, |scene, [product, _, _]| scene.flag(product, Flags(flag)));
    }
    for flag in [1, 4, 8] {
        left(Reason::Producer, |scene, [_, copy, _]| scene.flag(copy, Flags(flag)));
    }
}

#[test]
fn retained_producers() {
    left(Reason::Producer, |scene, [product, _, _]| scene.sketch.retain(product, None));
    left(Reason::Producer, |scene, [product, copy, _]| scene.sketch.retain(product, Some(copy)));
}

#[test]
fn producers_that_write_more_than_their_result() {
    for op in [Op::Unknown, Op::Custom, Op::None] {
        left(Reason::Producer, |scene, [product, _, _]| scene.sketch.draft(product).tensor.op = op);
    }
}

#[test]
fn copy_of_an_input() {
    let mut scene = Scene::new();
    let (x, cache) = (scene.input([8, 2, 1, 1]), scene.cache([8, 2, 1, 1]));
    scene.copy(x, cache);
    scene.assert_left(Reason::Producer);
}

#[test]
fn copy_of_what_is_written_in_place() {
    left(Reason::Producer, |scene, [product, _, _]| {
        scene.sketch.draft(product).tensor.view = Some(View { root: 0, offset: 0 });
    });
}

#[test]
fn source_with_another_reader() {
    left(Reason::Readers, |scene, [product, _, _]| {
        scene.node([8, 2, 1, 1], &[product]);
    });
}

#[test]
fn source_with_another_reader_of_a_view() {
    left(Reason::Readers, |scene, [product, _, _]| {
        let view = scene.reshape(product, [16, 1, 1, 1]);
        scene.node([16, 1, 1, 1], &[view]);
    });
}

#[test]
fn only_a_part_is_copied() {
    let mut scene = Scene::new();
    let (x, cache) = (scene.input([8, 4, 1, 1]), scene.cache([8, 2, 1, 1]));
    let product = scene.node([8, 4, 1, 1], &[x]);
    let half = scene.view(product, 64, plain([8, 2, 1, 1]));
    scene.copy(half, cache);
    scene.assert_left(Reason::Part);
}

#[test]
fn elements_are_repeated() {
    let mut scene = Scene::new();
    let (x, cache) = (scene.input([8, 1, 1, 1]), scene.cache([8, 2, 1, 1]));
    let product = scene.node([16, 1, 1, 1], &[x]);
    let twice = scene.view(product, 0, Layout { nb: [4, 0, 64, 64], ..plain([8, 2, 1, 1]) });
    scene.copy(twice, cache);
    scene.assert_left(Reason::Part);
}

#[test]
fn operation_that_cannot_write_the_layout() {
    left(Reason::Layout, |scene, [product, _, _]| scene.known[product as usize].writes = Strides::OnlyItsOwn);
    left(Reason::Layout, |scene, [_, copy, _]| scene.sketch.draft(copy).layout.nb = [8, 4, 64, 64]);
    left(Reason::Layout, |scene, [product, copy, _]| {
        scene.known[product as usize].writes = Strides::Contiguous;
        scene.sketch.draft(copy).layout.nb = [4, 64, 128, 128];
    });
}

#[test]
fn other_devices_write_no_gaps_and_need_alignment() {
    let on_gpu = |scene: &mut Scene, cache: TensorId| {
        scene.known[cache as usize].memory = Storage::Buffer { start: 0x8000, cpu: false };
    };
    left(Reason::Layout, |scene, [_, copy, cache]| {
        on_gpu(scene, cache);
        scene.sketch.draft(copy).layout.nb = [4, 64, 128, 128];
    });
    left(Reason::Layout, |scene, [_, copy, cache]| {
        on_gpu(scene, cache);
        scene.sketch.draft(copy).tensor.view = Some(View { root: cache, offset: 4 });
    });
}

#[test]
fn shape_without_strides() {
    let mut scene = Scene::new();
    let (x, cache) = (scene.input([6, 1, 1, 1]), scene.cache([8, 2, 1, 1]));
    let product = scene.node([6, 1, 1, 1], &[x]);
    let corner = scene.view(cache, 0, Layout { nb: [4, 32, 64, 64], ..plain([3, 2, 1, 1]) });
    scene.copy(product, corner);
    scene.assert_left(Reason::Layout);
}

#[test]
fn view_between_without_strides() {
    let mut scene = Scene::new();
    let (x, cache) = (scene.input([4, 2, 3, 1]), scene.cache([4, 3, 2, 1]));
    let heads = scene.node([4, 2, 3, 1], &[x]);
    let flat = scene.reshape(heads, [24, 1, 1, 1]);
    let again = scene.reshape(flat, [4, 2, 3, 1]);
    let turned = scene.permute(again, [0, 2, 1, 3]);
    scene.copy(turned, cache);
    scene.assert_left(Reason::Layout);
}

/// Creates a result, the nodes of `between`, which get the cache, and a copy of the result into the cache.
fn with(between: impl FnOnce(&mut Scene, TensorId)) -> Scene {
    let mut scene = Scene::new();
    let (x, cache) = (scene.input([8, 2, 1, 1]), scene.cache([8, 4, 1, 1]));
    let product = scene.node([8, 2, 1, 1], &[x]);
    between(&mut scene, cache);
    let slots = scene.view(cache, 64, plain([8, 2, 1, 1]));
    scene.copy(product, slots);
    scene
}

#[test]
fn memory_is_accessed_between() {
    with(|scene, cache| {
        scene.node([1, 1, 1, 1], &[cache]);
    })
    .assert_left(Reason::Order);
    with(|scene, cache| {
        let (x, view) = (scene.input([8, 2, 1, 1]), scene.view(cache, 32, plain([8, 2, 1, 1])));
        let write = scene.node([8, 2, 1, 1], &[x]);
        scene.sketch.draft(write).tensor.view = scene.sketch.drafts[view as usize].tensor.view;
    })
    .assert_left(Reason::Order);
    with(|scene, _| {
        let custom = scene.node([1, 1, 1, 1], &[]);
        scene.sketch.draft(custom).tensor.op = Op::Custom;
    })
    .assert_left(Reason::Order);
}

#[test]
fn other_bytes_may_be_accessed_between() {
    let scene = with(|scene, cache| {
        let others = scene.view(cache, 0, plain([8, 2, 1, 1]));
        scene.node([1, 1, 1, 1], &[others]);
    });
    assert_eq!(scene.find().removed.len(), 1);
}

#[test]
fn node_that_may_be_fused_reads_the_memory() {
    let fused = |with: u8| {
        let mut scene = Scene::new();
        let cache = scene.cache([8, 2, 1, 1]);
        let norm = scene.node([8, 2, 1, 1], &[cache]);
        let product = scene.node([8, 2, 1, 1], &[norm]);
        scene.known[product as usize].fused = with;
        scene.copy(product, cache);
        scene
    };
    assert_eq!(fused(0).find().removed.len(), 1);
    fused(1).assert_left(Reason::Order);
}

#[test]
fn memory_comes_after_the_producer() {
    let mut scene = Scene::new();
    let x = scene.input([8, 2, 1, 1]);
    let product = scene.node([8, 2, 1, 1], &[x]);
    let place = scene.node([8, 2, 1, 1], &[x]);
    let whole = scene.reshape(place, [8, 2, 1, 1]);
    scene.copy(product, whole);
    scene.assert_left(Reason::Order);
}

#[test]
fn place_depends_on_the_producer() {
    let mut scene = Scene::new();
    let (x, cache) = (scene.input([8, 2, 1, 1]), scene.cache([8, 2, 1, 1]));
    let product = scene.node([8, 2, 1, 1], &[x]);
    let other = scene.node([8, 2, 1, 1], &[x]);
    let place = scene.view(cache, 0, plain([8, 2, 1, 1]));
    scene.sketch.draft(place).sources.push(other);
    scene.copy(product, place);
    scene.assert_left(Reason::Order);
}

#[test]
fn producer_reads_what_it_would_overwrite() {
    let overlapping = |offset: Bytes, in_place: InPlace| {
        let mut scene = Scene::new();
        let cache = scene.cache([8, 4, 1, 1]);
        let read = scene.view(cache, offset, plain([8, 2, 1, 1]));
        let product = scene.node([8, 2, 1, 1], &[read]);
        scene.sketch.draft(product).tensor.in_place = in_place;
        let slots = scene.view(cache, 64, plain([8, 2, 1, 1]));
        scene.copy(product, slots);
        scene
    };
    overlapping(32, InPlace::Listed(Slots::ALL)).assert_left(Reason::Overlap);
    overlapping(64, InPlace::Never).assert_left(Reason::Overlap);
    assert_eq!(overlapping(64, InPlace::Listed(Slots::ALL)).find().removed.len(), 1);
    assert_eq!(overlapping(0, InPlace::Never).find().removed.len(), 1);
}

#[test]
fn nothing_is_known_of_the_memory() {
    let mut scene = Scene::new();
    let x = scene.input([8, 2, 1, 1]);
    let [a, b] = [(); 2].map(|()| scene.node([8, 2, 1, 1], &[x]));
    scene.concat([a, b], 1);
    scene.target = CopyTarget::Unknown;
    scene.assert_left(Reason::Memory);
}

#[test]
fn memory_is_planned_already() {
    left(Reason::Memory, |scene, [product, _, _]| {
        scene.known[product as usize].memory = Storage::Buffer { start: 0x100, cpu: true };
    });
}

#[test]
fn producer_would_run_elsewhere() {
    left(Reason::Device, |scene, _| scene.runs_elsewhere = false);
}

#[test]
fn slot_is_taken() {
    left(Reason::Slot, |scene, [product, _, _]| scene.known[product as usize].has_slot = false);
}

#[test]
fn concatenation_must_not_live_longer() {
    let mut scene = Scene::new();
    let x = scene.input([8, 2, 1, 1]);
    let [a, b] = [(); 2].map(|()| scene.node([8, 2, 1, 1], &[x]));
    scene.concat([a, b], 1);
    scene.freedom = Freedom::Owners;
    scene.assert_left(Reason::Peak);
}

#[test]
fn one_operand_that_stays_keeps_the_other() {
    let mut scene = Scene::new();
    let x = scene.input([8, 2, 1, 1]);
    let a = scene.node([8, 2, 1, 1], &[x]);
    scene.concat([a, x], 1);
    scene.assert_left(Reason::Producer);
}

#[test]
fn graph_that_lists_a_tensor_twice_stays_as_it_is() {
    let mut scene = Scene::new();
    let (x, cache) = (scene.input([8, 2, 1, 1]), scene.cache([8, 2, 1, 1]));
    let product = scene.node([8, 2, 1, 1], &[x]);
    scene.copy(product, cache);
    let mut graph = scene.sketch.graph();
    graph.list_nodes([product]);
    let same_memory: Vec<TensorId> = (0..).take(scene.known.len()).collect();
    let facts = CopyFacts {
        tensors: &scene.known,
        same_memory: &same_memory,
        target: CopyTarget::Cpu,
        alignment: 32,
        runs_at: &|_, _| true,
    };
    assert_eq!(find(&graph, facts, Freedom::LiveRanges), Found::default());
}
