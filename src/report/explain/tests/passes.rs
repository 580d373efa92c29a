//! Passes of lastuse that lower a peak, which is then not inherent.

use super::scene::{Scene, explain_snapshot, explain_with};
use crate::graph::tiling::TilingLimits;
use crate::graph::{Flags, Layout, Rules, TensorId};
use crate::placement::Bytes;
use crate::report::explain::{DEFAULT_TOP, Lowered, Pass, explanation_text};

/// Gives a tensor of a scene the extents of one of 32-bit elements.
fn shape(scene: &mut Scene, id: TensorId, ne: [i64; 4]) {
    let draft = scene.sketch.draft(id);
    draft.layout = Layout { element: 0, ne, nb: [0; 4] }.packed(4);
    draft.nbytes = ne.iter().product::<i64>().unsigned_abs() * 4;
    draft.size = draft.nbytes;
}

/// Attention of 256 tokens, its scores normalized by an operation of this name, and an input with the tokens.
pub fn attention(softmax: &'static str) -> Scene {
    let mut scene = Scene::new(Rules::GGML);
    let tokens = scene.input(256);
    scene.name(tokens, "tokens");
    let mut weight = |ne| {
        let id = scene.sketch.leaf(4);
        scene.sketch.draft(id).tensor.external = true;
        shape(&mut scene, id, ne);
        id
    };
    let [queries, keys, values] = [[16, 256, 4, 1], [16, 256, 4, 1], [256, 16, 4, 1]].map(&mut weight);
    let mut node = |name, ne, sources: &[TensorId]| {
        let id = scene.operation(name, 4, sources);
        shape(&mut scene, id, ne);
        id
    };
    let scores = node("MUL_MAT", [256, 256, 4, 1], &[keys, queries]);
    let normalized = node(softmax, [256, 256, 4, 1], &[scores]);
    node("MUL_MAT", [16, 256, 4, 1], &[values, normalized]);
    scene
}

#[test]
fn what_tiles_lower_is_not_inherent() {
    let scene = attention("SOFT_MAX");
    let mut tiled = scene.snapshot();
    let buffers = tiled.recorded_buffers();
    tiled.tile(&buffers, TilingLimits::of(0), &mut |_| true).expect("no tensor is listed twice");
    let lower_bound = tiled.plan_in(&buffers).expect("sizes are small").buffers[0].lower_bound;
    let saves = scene.bound() - lower_bound;
    assert!(saves * 4 > scene.bound(), "{saves} of {}", scene.bound());

    let remedies = scene.explained().remedies;
    assert_eq!(remedies.passes, [Lowered { pass: Pass::Tiling, saves, lower_bound }]);
    assert_eq!(remedies.inherent, None);
    let text = explanation_text(&scene.explain(), 1);
    assert!(text.contains(&format!("({saves} bytes): tiling")) && !text.contains("inherent"), "{text}");
}

#[test]
fn what_no_pass_can_change_is_inherent() {
    let scene = attention("an operation without tiles");
    let remedies = scene.explained().remedies;
    assert_eq!(remedies.passes, []);
    assert!(remedies.inherent.is_some());
    let text = explanation_text(&scene.explain(), DEFAULT_TOP);
    assert!(text.contains("This is inherent") && !text.contains("Passes of lastuse"), "{text}");
}

#[test]
fn what_recomputation_lowers_is_not_inherent() {
    let mut scene = Scene::new(Rules::NONE);
    let mut last = scene.input(16);
    let mut forward = Vec::new();
    for _ in 0..12 {
        last = scene.node(1024, &[last]);
        forward.push(last);
    }
    last = scene.node(16, &[last]);
    scene.sketch.flag(last, Flags::LOSS);
    for result in forward.into_iter().rev() {
        last = scene.node(16, &[last, result]);
    }
    let remedies = scene.explained().remedies;
    let [Lowered { pass: Pass::Recomputation, saves, lower_bound }] = remedies.passes[..] else {
        panic!("{:?}", remedies.passes)
    };
    assert!(saves >= 4 * 1024 && saves + lower_bound == scene.bound(), "{saves} of {}", scene.bound());
    assert_eq!(remedies.inherent, None);
    let text = explanation_text(&scene.explain(), DEFAULT_TOP);
    assert!(text.contains(&format!("({saves} bytes): recomputation")) && !text.contains("inherent"), "{text}");
}

#[test]
fn small_savings_are_named() {
    let mut scene = attention("SOFT_MAX");
    // Keeps so much live to the end that tiles save a small part.
    let large: Bytes = 1 << 30;
    let kept = scene.input(large);
    scene.sketch.flag(kept, Flags::OUTPUT);
    let explanation = explain_snapshot(&scene.snapshot());
    assert!(explanation.tiling.is_none(), "{:?}", explanation.tiling);
    let remedies = &explanation.buffers[0].remedies;
    assert_eq!(remedies.passes.iter().map(|lowered| lowered.pass).collect::<Vec<_>>(), [Pass::Tiling]);
    assert!(remedies.passes[0].saves * 1000 < large * 5);
    let text = explanation_text(&explanation, DEFAULT_TOP);
    assert!(text.contains(": tiling, for some more time"), "{text}");
}

#[test]
fn untried_passes_leave_open_what_is_inherent() {
    for softmax in ["SOFT_MAX", "an operation without tiles"] {
        let explanation = explain_with(&attention(softmax).snapshot(), 0);
        assert!(!explanation.all_tried);
        assert_eq!(explanation.buffers[0].remedies.inherent, None);
    }
}
