//! Where producers write when their copies are removed.

use super::*;

#[test]
fn product_is_computed_in_rows_of_a_cache() {
    let mut scene = Scene::new();
    let (x, cache) = (scene.input([8, 2, 1, 1]), scene.cache([8, 16, 1, 1]));
    let product = scene.node([8, 2, 1, 1], &[x]);
    let slots = scene.view(cache, 4 * 32, plain([8, 2, 1, 1]));
    let copy = scene.copy(product, slots);
    let found = scene.assert_removed(&[copy]);
    assert_eq!(found.bytes, 64);
    assert_eq!(moved(&found, product), (Some(View { root: cache, offset: 128 }), [4, 32, 64, 64]));
    assert_eq!(edit(&found).sources(product), [x, slots]);
}

#[test]
fn heads_are_computed_in_a_cache_of_one_dimension() {
    let mut scene = Scene::new();
    let (x, cache) = (scene.input([4, 2, 3, 1]), scene.cache([1000, 1, 1, 1]));
    let heads = scene.node([4, 2, 3, 1], &[x]);
    let rows = scene.reshape(heads, [8, 3, 1, 1]);
    let slots = scene.view(cache, 400, plain([24, 1, 1, 1]));
    let copy = scene.copy(rows, slots);
    let found = scene.assert_removed(&[copy]);
    assert_eq!(moved(&found, heads), (Some(View { root: cache, offset: 400 }), [4, 16, 32, 96]));
    assert_eq!(moved(&found, rows).0, Some(View { root: cache, offset: 400 }));
}

#[test]
fn permuted_result_is_written_in_the_order_of_the_copy() {
    let mut scene = Scene::new();
    let (x, cache) = (scene.input([4, 2, 3, 1]), scene.cache([4, 3, 2, 1]));
    let heads = scene.node([4, 2, 3, 1], &[x]);
    let turned = scene.permute(heads, [0, 2, 1, 3]);
    let copy = scene.copy(turned, cache);
    let found = scene.assert_removed(&[copy]);
    assert_eq!(moved(&found, heads).1, [4, 48, 16, 48]);
    assert_eq!(moved(&found, turned).1, [4, 16, 48, 96]);
}

#[test]
fn rows_with_gaps_are_written_as_such() {
    let mut scene = Scene::new();
    let (x, cache) = (scene.input([4, 3, 1, 1]), scene.cache([16, 3, 1, 1]));
    let rows = scene.node([4, 3, 1, 1], &[x]);
    let columns = scene.view(cache, 16, Layout { nb: [4, 64, 192, 192], ..plain([4, 3, 1, 1]) });
    let copy = scene.copy(rows, columns);
    assert_eq!(moved(&scene.assert_removed(&[copy]), rows).1, [4, 64, 192, 192]);
}

#[test]
fn continuous_copy_becomes_a_view_of_its_source() {
    let mut scene = Scene::new();
    let x = scene.input([8, 2, 1, 1]);
    let product = scene.node([8, 2, 1, 1], &[x]);
    scene.known[product as usize].writes = Strides::OnlyItsOwn;
    scene.target = CopyTarget::Unknown;
    let flat = scene.cont(product, [16, 1, 1, 1]);
    let part = scene.view(flat, 32, plain([8, 1, 1, 1]));
    scene.flag(flat, Flags::OUTPUT);
    let found = scene.assert_removed(&[flat]);
    assert_eq!(moved(&found, flat).0, Some(View { root: product, offset: 0 }));
    assert_eq!(moved(&found, part).0, Some(View { root: product, offset: 32 }));
    let tensor = edit(&found).tensor(product);
    assert!(tensor.flags.has(Flags::OUTPUT) && tensor.view.is_none());
}

#[test]
fn producer_takes_the_layout_of_a_continuous_copy() {
    let mut scene = Scene::new();
    let x = scene.input([4, 2, 3, 1]);
    let heads = scene.node([4, 2, 3, 1], &[x]);
    let turned = scene.permute(heads, [0, 2, 1, 3]);
    let flat = scene.cont(turned, [12, 2, 1, 1]);
    let found = scene.assert_removed(&[flat]);
    assert_eq!(moved(&found, heads), (None, [4, 48, 16, 48]));
}

#[test]
fn operands_are_computed_inside_their_concatenation() {
    let mut scene = Scene::new();
    let x = scene.input([8, 2, 1, 1]);
    let a = scene.node([8, 2, 1, 1], &[x]);
    let b = scene.node([8, 3, 1, 1], &[x]);
    let joined = scene.concat([a, b], 1);
    scene.node([8, 5, 1, 1], &[joined]);
    let found = scene.assert_removed(&[joined]);
    assert_eq!(found.bytes, 160);
    assert_eq!(moved(&found, a).0, Some(View { root: joined, offset: 0 }));
    assert_eq!(moved(&found, b), (Some(View { root: joined, offset: 64 }), [4, 32, 96, 96]));
    assert!(edit(&found).tensor(joined).is_marker() && edit(&found).sources(joined).is_empty());
}

#[test]
fn operands_are_computed_side_by_side_with_gaps() {
    let mut scene = Scene::new();
    let x = scene.input([8, 2, 1, 1]);
    let [a, b] = [3, 5].map(|width| scene.node([width, 2, 1, 1], &[x]));
    let joined = scene.concat([a, b], 0);
    let found = scene.assert_removed(&[joined]);
    assert_eq!(moved(&found, b), (Some(View { root: joined, offset: 12 }), [4, 32, 64, 64]));
}

#[test]
fn result_copied_twice_goes_to_the_last_destination() {
    let mut scene = Scene::new();
    let (x, cache) = (scene.input([8, 2, 1, 1]), scene.cache([8, 16, 1, 1]));
    let [a, b, c] = [1, 2, 3].map(|rows| scene.node([8, rows, 1, 1], &[x]));
    let two = scene.concat([a, b], 1);
    let flat = scene.cont(two, [8, 3, 1, 1]);
    let three = scene.concat([flat, c], 1);
    let slots = scene.view(cache, 64, plain([8, 6, 1, 1]));
    let copy = scene.copy(three, slots);
    let found = scene.assert_removed(&[two, flat, three, copy]);
    for (id, offset) in [(a, 64), (b, 96), (c, 160), (two, 64), (flat, 64), (three, 64)] {
        assert_eq!(moved(&found, id).0, Some(View { root: cache, offset }), "tensor {id}");
    }
}

#[test]
fn state_is_updated_in_place() {
    let mut scene = Scene::new();
    let (x, state) = (scene.input([8, 2, 1, 1]), scene.cache([8, 2, 1, 1]));
    let sum = scene.elementwise(&[state, x]);
    let copy = scene.copy(sum, state);
    scene.assert_removed(&[copy]);
}

#[test]
fn memory_of_a_context_needs_no_destination_source() {
    let mut scene = Scene::new();
    let x = scene.input([8, 2, 1, 1]);
    let product = scene.node([8, 2, 1, 1], &[x]);
    let copied = scene.cont(product, [8, 2, 1, 1]);
    for (id, start) in [(x, 0x100), (product, 0x200), (copied, 0x300)] {
        scene.known[id as usize].memory = Storage::Context { start };
    }
    let found = scene.assert_removed(&[copied]);
    assert_eq!(moved(&found, product).0, Some(View { root: copied, offset: 0 }));
    assert_eq!(edit(&found).sources(product), scene.sketch.graph().sources(product));
}

#[test]
fn two_copies_into_one_cache_are_both_removed() {
    let mut scene = Scene::new();
    let (x, cache) = (scene.input([8, 2, 1, 1]), scene.cache([8, 16, 1, 1]));
    let [a, b] = [(); 2].map(|()| scene.node([8, 2, 1, 1], &[x]));
    let slots = [0, 64].map(|offset| scene.view(cache, offset, plain([8, 2, 1, 1])));
    let copies = [scene.copy(a, slots[0]), scene.copy(b, slots[1])];
    scene.assert_removed(&copies);
}

#[test]
fn graph_without_copies_stays_as_it_is() {
    let mut scene = Scene::new();
    assert_eq!(scene.find(), Found::default());
    let x = scene.input([8, 2, 1, 1]);
    scene.node([8, 2, 1, 1], &[x]);
    assert_eq!(scene.find(), Found::default());
}

#[test]
fn changed_graph_has_all_changes() {
    let mut scene = Scene::new();
    let x = scene.input([8, 2, 1, 1]);
    let [a, b] = [(); 2].map(|()| scene.node([8, 2, 1, 1], &[x]));
    let joined = scene.concat([a, b], 1);
    let found = scene.find();
    let graph = edit(&found).clone().finish().graph;
    assert!(graph.tensor(joined).is_marker() && graph.sources(joined).is_empty());
    assert_eq!((graph.root(b), graph.sources(b)), (joined, &[x, joined][..]));
}
