//! Bytes that are live at a step in every order of the nodes.

use super::scene::Scene;
use crate::graph::{Flags, Rules};
use crate::placement::Bytes;

/// Bytes of the sources and the result of the node of the peak, and of the tensors that are live across it; `None` if
/// that is less than most of the peak.
fn inherent(scene: &Scene) -> Option<[Bytes; 2]> {
    scene.explained().remedies.inherent.map(|inherent| [inherent.of_node, inherent.across])
}

/// A chain with a large node. Its predecessors are read after it, by the last node of the chain or by one next to it.
fn chain(last_reads: bool) -> Scene {
    let mut scene = Scene::new(Rules::GGML);
    let x0 = scene.input(16);
    let n1 = scene.node(512, &[x0]);
    let n2 = scene.node(64, &[n1]);
    let large = scene.node(1024, &[n2]);
    if last_reads {
        scene.node(16, &[large, n1]);
    } else {
        // It may run before the large node.
        let beside = scene.node(16, &[n1]);
        scene.node(16, &[large, beside]);
    }
    scene
}

#[test]
fn what_is_computed_before_a_node_and_read_after_it_is_live_in_every_order() {
    assert_eq!(inherent(&chain(true)), Some([1024 + 64, 512]));
    assert_eq!(inherent(&chain(false)), None, "512 of the 1600 bytes are live in the given order alone");
}

#[test]
fn outputs_that_are_computed_before_a_node_are_live_in_every_order() {
    let mut scene = Scene::new(Rules::GGML);
    let x0 = scene.input(16);
    let n1 = scene.node(512, &[x0]);
    scene.sketch.flag(n1, Flags::OUTPUT);
    let large = scene.node(1024, &[n1]);
    let second = scene.node(1024, &[large]);
    scene.node(16, &[second]);
    assert_eq!(inherent(&scene), Some([2048, 512]));
}

#[test]
fn inputs_that_are_read_later_can_be_filled_later() {
    let mut scene = Scene::new(Rules::GGML);
    let (x0, late) = (scene.input(16), scene.input(1024));
    let large = scene.node(1024, &[x0]);
    let end = scene.node(16, &[large]);
    scene.node(16, &[end, late]);
    assert_eq!(inherent(&scene), None);
}

#[test]
fn a_result_that_could_be_in_place_in_another_order_does_not_count() {
    let mut scene = Scene::new(Rules::GGML);
    let x0 = scene.input(16);
    let n1 = scene.node(1024, &[x0]);
    let n2 = scene.sketch.in_place(1024, &[n1]);
    let other = scene.node(16, &[n1]);
    scene.node(16, &[n2, other]);
    assert_eq!(inherent(&scene), None, "the node next to it may run first");
}
