//! The peak, and the tensors that are live there.

use super::scene::{Scene, blocks, explain_snapshot};
use crate::graph::tests::sketch::BUFFER;
use crate::graph::{BufferSpec, Flags, Rules};
use crate::report::explain::{Kept, Named, Node, Peak};

fn node(step: u32, name: &str) -> Node {
    Node { step, tensor: Some(Named { name: name.to_owned(), op: "MUL_MAT".to_owned(), of: None }) }
}

fn peak(scene: &Scene) -> Peak {
    scene.explained().peak.expect("something is live")
}

#[test]
fn live_tensors_have_their_def_and_last_use() {
    let mut scene = Scene::new(Rules::GGML);
    let x0 = scene.input(16);
    let n1 = scene.node(64, &[x0]);
    let n2 = scene.node(100, &[n1]);
    scene.node(16, &[n2, x0]);
    let peak = peak(&scene);
    assert_eq!((peak.node.clone(), peak.bytes, peak.as_high.len()), (node(1, "n2"), 192, 0));
    assert_eq!(blocks(&peak), [(112, vec!["n2"]), (64, vec!["n1"]), (16, vec!["x0"])]);
    let live_ranges: Vec<_> =
        peak.live.iter().map(|block| &block.tensors[0]).map(|it| (it.def.clone(), it.last_use.clone())).collect();
    let last_uses = [node(2, "n3"), node(1, "n2"), node(2, "n3")].map(Some);
    let defs = [Some(node(1, "n2")), Some(node(0, "n1")), None];
    assert_eq!(live_ranges, Vec::from_iter(defs.into_iter().zip(last_uses)));
}

#[test]
fn shared_memory_counts_once() {
    let mut scene = Scene::new(Rules::GGML);
    let x0 = scene.input(16);
    let n1 = scene.node(64, &[x0]);
    let n2 = scene.sketch.in_place(64, &[n1]);
    let n3 = scene.sketch.in_place(64, &[n2]);
    scene.node(160, &[n3]);
    let peak = peak(&scene);
    assert_eq!(blocks(&peak), [(160, vec!["n4"]), (64, vec!["n3"])]);
    // One step earlier both the source and the result in place are live.
    let mut scene = Scene::new(Rules::GGML);
    let x0 = scene.input(160);
    let n1 = scene.node(64, &[]);
    let n2 = scene.sketch.in_place(64, &[n1]);
    scene.node(16, &[n2]);
    scene.sketch.draft(n2).sources.push(x0);
    let peak = self::peak(&scene);
    assert_eq!((peak.node.step, blocks(&peak)), (0, vec![(160, vec!["x0"]), (64, vec!["n1"])]));
    assert_eq!(peak.as_high, [(1, 1)]);
}

#[test]
fn tensors_live_to_the_end_have_a_reason() {
    let mut scene = Scene::new(Rules::GGML);
    let x0 = scene.input(16);
    let n1 = scene.node(16, &[x0]);
    let n2 = scene.node(32, &[n1]);
    scene.node(48, &[n1]);
    scene.sketch.flag(n1, Flags::OUTPUT);
    scene.node(64, &[n1]);
    let peak = peak(&scene);
    assert_eq!(peak.node.step, 3);
    let kept: Vec<_> = peak.live.iter().map(|block| (block.bytes, block.tensors[0].kept)).collect();
    assert_eq!(
        kept,
        [(64, Some(Kept::Unused)), (48, Some(Kept::Unused)), (32, Some(Kept::Unused)), (16, Some(Kept::Output))]
    );
    assert_eq!(peak.live[2].tensors[0].tensor.name, format!("n{n2}"));
}

#[test]
fn use_of_a_view_is_a_use_of_its_owner() {
    let mut scene = Scene::new(Rules::GGML);
    let x0 = scene.input(16);
    let n1 = scene.node(64, &[x0]);
    let n2 = scene.sketch.view(n1, 0, 64);
    let n3 = scene.node(160, &[x0]);
    scene.node(16, &[n2, n3]);
    let peak = peak(&scene);
    assert_eq!(blocks(&peak), [(160, vec!["n3"]), (64, vec!["n1"]), (16, vec!["x0"])]);
    assert_eq!(peak.live[1].tensors[0].last_use, Some(node(3, "n4")));
}

#[test]
fn block_of_a_later_concat_names_the_result() {
    let mut scene = Scene::new(Rules::ALL);
    let x0 = scene.input(32);
    let n1 = scene.node(96, &[x0]);
    let n2 = scene.node(96, &[x0]);
    let n3 = scene.sketch.concat([n1, n2], 192);
    scene.node(16, &[n3]);
    let peak = peak(&scene);
    assert_eq!((peak.node.step, peak.as_high.as_slice()), (0, [(1, 1)].as_slice()));
    assert_eq!(blocks(&peak), [(192, vec!["n1"]), (32, vec!["x0"])]);
    assert_eq!(peak.live[0].room_for.as_ref().map(|result| result.name.as_str()), Some("n3"));
}

#[test]
fn bytes_above_the_bound_are_fragmentation() {
    // Three of 48 bytes take a chunk of 96 and one of 48; then two of 64 do not fit without 16 bytes more.
    let mut scene = Scene::with_buffers(&[BufferSpec { max_chunk: Some(96), rules: Rules::GGML, ..BUFFER }]);
    let n0 = scene.node(48, &[]);
    let n1 = scene.node(48, &[n0]);
    let n2 = scene.node(48, &[n0, n1]);
    let n3 = scene.node(64, &[n2]);
    scene.node(64, &[n3]);
    let explained = scene.explained();
    assert_eq!((explained.lower_bound, explained.size, explained.fragmentation), (144, 160, 16));
    assert_eq!(explained.chunks, 2);
}

#[test]
fn each_buffer_has_its_peak() {
    let buffer = BufferSpec { rules: Rules::GGML, ..BUFFER };
    let mut scene = Scene::with_buffers(&[buffer, BufferSpec { alignment: 64, ..buffer }, buffer]);
    let x0 = scene.input(16);
    let n1 = scene.node(64, &[x0]);
    let n2 = scene.node(100, &[n1]);
    let n3 = scene.node(100, &[n2]);
    scene.node(16, &[n3]);
    (scene.sketch.draft(n2).buffer, scene.sketch.draft(n3).buffer) = (1, 1);
    let explanation = scene.explain();
    let peaks: Vec<_> =
        explanation.buffers.iter().map(|buffer| buffer.peak.as_ref().map(|it| (it.node.step, blocks(it)))).collect();
    let first = (0, vec![(64, vec!["n1"]), (16, vec!["x0"])]);
    let second = (2, vec![(128, vec!["n2"]), (128, vec!["n3"])]);
    assert_eq!(peaks, [Some(first), Some(second), None]);
    assert_eq!(explanation.buffers.iter().map(|buffer| buffer.id).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn empty_graph_has_no_peak() {
    let explained = Scene::new(Rules::ALL).explained();
    assert!(explained.peak.is_none() && explained.advice.is_empty() && explained.limit.is_none());
    assert_eq!((explained.size, explained.ggml_alloc), (0, Some(0)));
}

#[test]
fn graph_without_nodes_has_one_step() {
    let mut scene = Scene::new(Rules::ALL);
    scene.input(16);
    let peak = peak(&scene);
    assert_eq!((peak.node, peak.bytes), (Node { step: 0, tensor: None }, 16));
}

#[test]
fn ggml_alloc_size_is_computed_unless_recorded() {
    let mut scene = Scene::new(Rules::ALL);
    let x0 = scene.input(16);
    let n1 = scene.operation("CONT", 16, &[x0]);
    scene.node(16, &[n1]);
    assert_eq!((scene.explained().size, scene.explained().ggml_alloc), (32, Some(32)));
    let mut snapshot = scene.snapshot();
    snapshot.buffers[0].ggml_alloc_size = Some(4096);
    assert_eq!(explain_snapshot(&snapshot).buffers[0].ggml_alloc, Some(4096));
}
