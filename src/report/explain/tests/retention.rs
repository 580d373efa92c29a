//! Retained tensors in an explanation, and what retaining less saves.

use super::scene::Scene;
use crate::graph::{Flags, Rules, TensorId};
use crate::report::explain::{Advice, Change, DEFAULT_TOP, Kept, explanation_text};

/// An input, and a node of 160 bytes that only the next node reads; then a peak of two tensors of 64 bytes.
fn scene() -> (Scene, TensorId, [TensorId; 4]) {
    let mut scene = Scene::new(Rules::GGML);
    let x = scene.input(16);
    let big = scene.node(160, &[x]);
    let read = scene.node(16, &[big]);
    let a = scene.node(64, &[read]);
    let b = scene.node(64, &[a]);
    let last = scene.node(16, &[b]);
    (scene, big, [read, a, b, last])
}

fn is_release(advice: &Advice) -> bool {
    matches!(advice.change, Change::Release { .. })
}

#[test]
fn tensor_that_is_retained_to_the_end_is_named_and_can_be_released() {
    let (mut scene, big, _) = scene();
    let without = scene.bound();
    scene.sketch.retain(big, None);
    let peak = scene.explained().peak.expect("there is a peak");
    let live = &peak.live[0].tensors[0];
    assert_eq!((live.tensor.name.as_str(), live.kept), ("n1", Some(Kept::Retained)));
    let advice = scene.advice(is_release);
    assert_eq!(advice.lower_bound, without);
    let Change::Release { tensor, bytes, ref needed_until } = advice.change else { panic!() };
    assert_eq!((tensor.name.as_str(), bytes, needed_until.step), ("n1", 160, 1));
    let text = explanation_text(&scene.explain(), DEFAULT_TOP);
    assert!(text.contains("step 0   retained to the end"), "{text}");
    assert!(text.contains("MUL_MAT \"n1\" is retained, which keeps 160 B live, but its last use is step 1"), "{text}");
}

#[test]
fn tensor_that_is_retained_until_a_node_is_named_and_can_be_released() {
    let (mut scene, big, [_, _, b, _]) = scene();
    scene.sketch.retain(big, Some(b));
    let peak = scene.explained().peak.expect("there is a peak");
    let live = &peak.live[0].tensors[0];
    assert_eq!((live.kept, live.retained_until.as_ref().map(|until| until.step)), (None, Some(3)));
    assert_eq!(peak.live.iter().map(|block| block.bytes).sum::<u64>(), peak.bytes);
    assert!(scene.advice(is_release).saves > 0);
    let text = explanation_text(&scene.explain(), DEFAULT_TOP);
    assert!(text.contains("step 1, MUL_MAT \"n2\"; retained until step 3, MUL_MAT \"n4\""), "{text}");
}

#[test]
fn view_that_is_retained_is_named() {
    let (mut scene, big, _) = scene();
    let view = scene.sketch.view(big, 0, 16);
    scene.sketch.retain(view, None);
    let peak = scene.explained().peak.expect("there is a peak");
    assert_eq!(peak.live[0].tensors[0].kept, Some(Kept::Retained));
}

#[test]
fn output_stays_an_output_when_it_is_retained() {
    let (mut scene, big, _) = scene();
    scene.sketch.flag(big, Flags::OUTPUT);
    scene.sketch.retain(big, None);
    let peak = scene.explained().peak.expect("there is a peak");
    assert_eq!(peak.live[0].tensors[0].kept, Some(Kept::Output));
}

/// None of them alone lowers the peak as removing all of them does.
#[test]
fn all_retained_tensors_can_be_released_together() {
    let (mut scene, big, nodes) = scene();
    let without = scene.bound();
    nodes.into_iter().chain([big]).for_each(|id| scene.sketch.retain(id, None));
    let advice = scene.advice(|advice| matches!(advice.change, Change::ReleaseAll { .. }));
    assert!(matches!(advice.change, Change::ReleaseAll { tensors: 5 }), "{advice:?}");
    assert_eq!(advice.lower_bound, without);
    let text = explanation_text(&scene.explain(), DEFAULT_TOP);
    assert!(text.contains("5 tensors are retained: retain fewer"), "{text}");
}

#[test]
fn tensor_that_is_needed_at_the_peak_cannot_be_released() {
    let mut scene = Scene::new(Rules::GGML);
    let x = scene.input(16);
    let big = scene.node(160, &[x]);
    let other = scene.node(160, &[big, x]);
    scene.node(16, &[other]);
    scene.sketch.retain(big, None);
    assert!(!scene.explained().advice.iter().any(is_release));
}
