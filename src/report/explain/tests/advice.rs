//! Changes that lower a peak. Each saving is compared with the bound of a graph built with the change.

use super::scene::{Scene, explain_with};
use crate::graph::tests::sketch::BUFFER;
use crate::graph::{BufferSpec, Flags, Rules, TensorId};
use crate::placement::Bytes;
use crate::report::explain::{Advice, Change, DEFAULT_TOP, Kept, explanation_text};

/// Appends a peak of two tensors of 64 bytes; the result is small.
fn add_peak(scene: &mut Scene, source: TensorId) -> TensorId {
    let a = scene.node(64, &[source]);
    let b = scene.node(64, &[a]);
    scene.node(16, &[b])
}

fn is_later(advice: &Advice) -> bool {
    matches!(advice.change, Change::Later { .. })
}

fn is_again(advice: &Advice) -> bool {
    matches!(advice.change, Change::Again { .. })
}

fn assert_saves(advice: &Advice, scene: &Scene, changed: &Scene, saves: Bytes) {
    assert_eq!((advice.saves, advice.lower_bound), (saves, scene.bound() - saves));
    assert_eq!(changed.bound(), advice.lower_bound);
}

#[test]
fn input_with_a_late_use_can_be_filled_late() {
    let mut scene = Scene::new(Rules::GGML);
    let (x, big) = (scene.input(16), scene.input(160));
    let c = add_peak(&mut scene, x);
    scene.node(16, &[c, big]);
    let advice = scene.advice(is_later);

    let mut changed = Scene::new(Rules::GGML);
    let x = changed.input(16);
    let c = add_peak(&mut changed, x);
    let big = changed.node(160, &[]);
    changed.node(16, &[c, big]);
    assert_saves(&advice, &scene, &changed, 96);
    let Change::Later { tensor, bytes, def, first_use, with } = advice.change else { panic!() };
    assert_eq!((tensor.name.as_str(), bytes, def, first_use.step, with), ("x1", 160, None, 3, 0));
}

#[test]
fn result_with_a_late_use_can_be_computed_late() {
    let mut scene = Scene::new(Rules::GGML);
    let x = scene.input(16);
    let k = scene.node(160, &[x]);
    let c = add_peak(&mut scene, x);
    scene.node(16, &[c, k]);
    let advice = scene.advice(is_later);

    let mut changed = Scene::new(Rules::GGML);
    let x = changed.input(16);
    let c = add_peak(&mut changed, x);
    let k = changed.node(160, &[x]);
    changed.node(16, &[c, k]);
    assert_saves(&advice, &scene, &changed, 96);
    let Change::Later { tensor, def, first_use, with, .. } = advice.change else { panic!() };
    assert_eq!((tensor.name.as_str(), def, first_use.step, with), ("n1", Some(0), 4, 0));
}

#[test]
fn nodes_that_only_it_needs_move_with_it() {
    let mut scene = Scene::new(Rules::GGML);
    let x = scene.input(16);
    let j = scene.node(80, &[x]);
    let k = scene.node(160, &[j]);
    let a = scene.node(160, &[x]);
    let b = scene.node(160, &[a]);
    let c = scene.node(16, &[b]);
    scene.node(16, &[c, k]);
    let advice = scene.advice(is_later);

    let mut changed = Scene::new(Rules::GGML);
    let x = changed.input(16);
    let a = changed.node(160, &[x]);
    let b = changed.node(160, &[a]);
    let c = changed.node(16, &[b]);
    let j = changed.node(80, &[x]);
    let k = changed.node(160, &[j]);
    changed.node(16, &[c, k]);
    assert_saves(&advice, &scene, &changed, 144);
    assert!(matches!(advice.change, Change::Later { with: 1, .. }), "{advice:?}");
}

#[test]
fn node_does_not_move_past_a_write_to_its_source() {
    let scene = |overwrites: bool| {
        let mut scene = Scene::new(Rules::GGML);
        let (x, cache) = (scene.input(16), scene.input(16));
        scene.sketch.draft(cache).tensor.external = true;
        let k = scene.node(160, &[cache]);
        let c = add_peak(&mut scene, x);
        if overwrites {
            scene.sketch.copy(c, cache, 16);
        }
        scene.node(16, &[c, k]);
        scene
    };
    assert_eq!(scene(false).advice(is_later).saves, 96);
    assert!(!scene(true).explained().advice.iter().any(is_later));
}

#[test]
fn result_without_uses_at_the_peak_can_be_recomputed() {
    let mut scene = Scene::new(Rules::GGML);
    let x = scene.input(16);
    let t = scene.node(160, &[x]);
    let r = scene.node(16, &[t]);
    let c = add_peak(&mut scene, r);
    scene.node(16, &[c, t]);
    let advice = scene.advice(is_again);

    let mut changed = Scene::new(Rules::GGML);
    let x = changed.input(16);
    let t = changed.node(160, &[x]);
    let r = changed.node(16, &[t]);
    let c = add_peak(&mut changed, r);
    let t = changed.node(160, &[x]);
    changed.node(16, &[c, t]);
    assert_saves(&advice, &scene, &changed, 96);
    let Change::Again { tensor, is_computed, last_use, next_use, .. } = advice.change else { panic!() };
    assert_eq!((tensor.name.as_str(), is_computed, last_use.step, next_use.step), ("n1", true, 1, 5));
}

#[test]
fn input_without_uses_at_the_peak_can_be_refilled() {
    let mut scene = Scene::new(Rules::GGML);
    let x = scene.input(160);
    let view = scene.sketch.view(x, 0, 160);
    let r = scene.node(16, &[view]);
    let c = add_peak(&mut scene, r);
    scene.node(16, &[c, view]);
    let advice = scene.advice(is_again);

    let mut changed = Scene::new(Rules::GGML);
    let x = changed.input(160);
    let view = changed.sketch.view(x, 0, 160);
    let r = changed.node(16, &[view]);
    let c = add_peak(&mut changed, r);
    let x = changed.node(160, &[]);
    let view = changed.sketch.view(x, 0, 160);
    changed.node(16, &[c, view]);
    assert_saves(&advice, &scene, &changed, 96);
    assert!(matches!(advice.change, Change::Again { is_computed: false, .. }), "{advice:?}");
}

#[test]
fn output_can_be_read_after_its_last_use() {
    let mut scene = Scene::new(Rules::GGML);
    let x = scene.input(16);
    let o = scene.node(160, &[x]);
    let r = scene.node(16, &[o]);
    scene.sketch.flag(o, Flags::OUTPUT);
    add_peak(&mut scene, r);
    let advice = scene.advice(|advice| matches!(advice.change, Change::NoOutput { .. }));

    let mut changed = Scene::new(Rules::GGML);
    let x = changed.input(16);
    let o = changed.node(160, &[x]);
    let r = changed.node(16, &[o]);
    add_peak(&mut changed, r);
    assert_saves(&advice, &scene, &changed, 112);
    let Change::NoOutput { tensor, bytes, needed_until } = advice.change else { panic!() };
    assert_eq!((tensor.name.as_str(), bytes, needed_until.step), ("n1", 160, 1));
}

#[test]
fn output_is_named_by_the_view_that_is_flagged() {
    let mut scene = Scene::new(Rules::GGML);
    let x = scene.input(16);
    let o = scene.node(160, &[x]);
    let view = scene.sketch.view(o, 0, 16);
    scene.sketch.flag(view, Flags::OUTPUT);
    add_peak(&mut scene, x);
    let advice = scene.advice(|advice| matches!(advice.change, Change::NoOutput { .. }));
    assert_eq!(advice.saves, 160 + 128 - 176);
    let Change::NoOutput { tensor, needed_until, .. } = advice.change else { panic!() };
    assert_eq!((tensor.name.as_str(), needed_until.step), ("n2", 1));
}

#[test]
fn unused_tensor_can_be_left_out_with_nodes_that_only_it_needs() {
    let mut scene = Scene::new(Rules::GGML);
    let x = scene.input(16);
    let v = scene.node(32, &[x]);
    let u = scene.node(160, &[v]);
    add_peak(&mut scene, x);
    let advice = scene.advice(|advice| matches!(advice.change, Change::LeaveOut { .. }));

    let mut changed = Scene::new(Rules::GGML);
    let x = changed.input(16);
    add_peak(&mut changed, x);
    assert_saves(&advice, &scene, &changed, 160);
    let Change::LeaveOut { tensor, with, is_skipped, .. } = advice.change else { panic!() };
    assert_eq!((tensor.name, with, is_skipped), (format!("n{u}"), 1, false));
    let computed = scene.node(16, &[]);
    scene.sketch.flag(computed, Flags::COMPUTE);
    let advice = scene.advice(|advice| matches!(advice.change, Change::LeaveOut { .. }));
    assert!(matches!(advice.change, Change::LeaveOut { is_skipped: true, .. }), "{advice:?}");
}

#[test]
fn result_of_the_graph_is_not_left_out() {
    let mut scene = Scene::new(Rules::GGML);
    let x = scene.input(16);
    scene.node(160, &[x]);
    let explained = scene.explained();
    assert!(explained.advice.is_empty(), "{:?}", explained.advice);
    let peak = explained.peak.expect("something is live");
    assert_eq!(peak.live[0].tensors[0].kept, Some(Kept::Unused));
}

/// A copy of 96 bytes, which `reader` reads.
fn copied(rules: Rules, copy: &'static str, reader: &'static str, is_copied: bool) -> Scene {
    let mut scene = Scene::new(rules);
    let x = scene.input(16);
    let s = scene.node(96, &[x]);
    let t = if is_copied { scene.operation(copy, 96, &[s]) } else { scene.sketch.view(s, 0, 96) };
    let r = scene.operation(reader, 16, &[t]);
    scene.node(16, &[r]);
    scene
}

#[test]
fn copy_can_be_left_out_when_its_readers_can_read_what_is_copied() {
    let is_no_copy = |advice: &Advice| matches!(advice.change, Change::NoCopy { .. });
    for copy in ["CONT", "DUP", "CPY"] {
        let (scene, changed) =
            (copied(Rules::GGML, copy, "MUL_MAT", true), copied(Rules::GGML, copy, "MUL_MAT", false));
        assert_saves(&scene.advice(is_no_copy), &scene, &changed, 80);
    }
    // It writes to its sources, so the copy may protect them.
    let scene = copied(Rules::GGML, "CONT", "OPT_STEP_SGD", true);
    assert!(!scene.explained().advice.iter().any(is_no_copy));
}

#[test]
fn rule_that_is_off_is_reported_with_an_example() {
    let gated = |rules: Rules| {
        let mut scene = Scene::new(rules);
        let x = scene.input(16);
        let (g, u) = (scene.node(96, &[x]), scene.node(96, &[x]));
        let s = scene.operation("GLU", 96, &[g, u]);
        scene.node(16, &[s]);
        scene
    };
    let scene = gated(Rules::GGML);
    let advice = scene.advice(|advice| matches!(advice.change, Change::Rule { .. }));
    assert_saves(&advice, &scene, &gated(Rules { rows: true, ..Rules::GGML }), 80);
    let Change::Rule { rule, example } = advice.change else { panic!() };
    let example = example.expect("a tensor is computed in place");
    assert_eq!((rule.as_str(), example.tensor.name.as_str(), example.memory_of.name.as_str()), ("rows", "n3", "n1"));
    let all = scene.advice(|advice| advice.change == Change::AllRules);
    assert_saves(&all, &scene, &gated(Rules::ALL), 80);
    assert!(gated(Rules::ALL).explained().advice.is_empty());
}

#[test]
fn better_order_is_reported() {
    let branches = |first: bool| {
        let mut scene = Scene::new(Rules::GGML);
        let x = scene.input(32);
        let a = scene.node(1024, &[x]);
        let c = first.then(|| scene.node(32, &[a]));
        let b = scene.node(1024, &[x]);
        let c = c.unwrap_or_else(|| scene.node(32, &[a]));
        let d = scene.node(32, &[b]);
        scene.node(32, &[c, d]);
        scene
    };
    let scene = branches(false);
    let advice = scene.advice(|advice| matches!(advice.change, Change::Reorder { .. }));
    assert_saves(&advice, &scene, &branches(true), 992);
    assert_eq!(advice.change, Change::Reorder { moved: 1 });
}

#[test]
fn copies_into_caches_can_be_removed() {
    let mut scene = Scene::new(Rules::ALL);
    let (x, cache) = (scene.input(16), scene.input(96));
    scene.sketch.draft(cache).tensor.external = true;
    let p = scene.operation("MUL", 96, &[x, x]);
    scene.sketch.copy(p, cache, 96);
    scene.node(16, &[x]);
    let advice = scene.advice(|advice| matches!(advice.change, Change::RemoveCopies { .. }));
    assert_eq!((advice.saves, advice.change), (112 - 32, Change::RemoveCopies { copies: 1 }));
}

#[test]
fn second_peak_is_the_limit() {
    let mut scene = Scene::new(Rules::GGML);
    let (x, big) = (scene.input(16), scene.input(160));
    let c = add_peak(&mut scene, x);
    let d = scene.node(16, &[c, big]);
    let e = scene.node(128, &[d]);
    let f = scene.node(160, &[e]);
    scene.node(16, &[f]);
    let explained = scene.explained();
    let peak = explained.peak.expect("something is live");
    assert_eq!((peak.node.step, peak.bytes, peak.as_high), (1, 288, vec![(5, 5)]));
    assert!(explained.advice.is_empty(), "{:?}", explained.advice);
    let limit = explained.limit.expect("a change frees memory at the first of both");
    assert_eq!((limit.frees, limit.lower_bound), (160, 288));
    assert_eq!(limit.peak.tensor.map(|node| node.name), Some(format!("n{f}")));
    assert!(matches!(limit.change, Change::Later { tensor, .. } if tensor.name == "x1"));
}

#[test]
fn bytes_moved_to_another_buffer_are_not_saved() {
    let graph = |is_late: bool| {
        let mut scene = Scene::with_buffers(&[BufferSpec { rules: Rules::GGML, ..BUFFER }; 2]);
        let x = scene.input(16);
        let j = scene.node(320, &[x]);
        let r = scene.node(16, &[j]);
        let k = (!is_late).then(|| scene.node(160, &[j]));
        let a = scene.node(64, &[r]);
        let b = scene.node(320, &[a]);
        let c = scene.node(16, &[b]);
        // Late, it keeps its source live together with `b`, in the other buffer.
        let k = k.unwrap_or_else(|| scene.node(160, &[j]));
        scene.node(16, &[c, k]);
        (scene.sketch.draft(j).buffer, scene.sketch.draft(b).buffer) = (1, 1);
        scene
    };
    assert_eq!((graph(false).bounds(), graph(true).bounds()), (vec![240, 320], vec![192, 640]));
    let explained = graph(false).explain();
    assert!(!explained.buffers[0].advice.iter().any(is_later), "{:?}", explained.buffers[0].advice);
}

#[test]
fn work_limit_is_reported() {
    let mut scene = Scene::new(Rules::GGML);
    let (x, big) = (scene.input(16), scene.input(160));
    let c = add_peak(&mut scene, x);
    scene.node(16, &[c, big]);
    let snapshot = scene.snapshot();
    let remark = "not every change was tried";
    let trial = snapshot.tensors.len() as u64 + 1;
    let [none, one, all] = [0, trial, 1000 * trial].map(|trials| explain_with(&snapshot, trials));
    for (explanation, all_tried) in [(&none, false), (&one, false), (&all, true)] {
        assert_eq!(explanation.all_tried, all_tried);
        assert_eq!(explanation_text(explanation, DEFAULT_TOP).contains(remark), !all_tried);
        assert_eq!(explanation.buffers[0].lower_bound, scene.bound());
        assert_eq!(explanation.buffers[0].advice.is_empty(), !all_tried);
    }
    assert_eq!(
        (none.buffers[0].reuse.lower_bound_without, one.buffers[0].reuse.lower_bound_without.is_some()),
        (None, true)
    );
}
