//! Snapshots of scheduled graphs.

use crate::graph::TensorId;
use crate::graph::snapshot::Snapshot;
use crate::offload::rules::{SchedulerOptions, captured_sizes, compute_buffers, schedule, unscheduled};

use super::scene::{CPU, GPU, Scene, gpu_and_cpu};

fn scene() -> Scene {
    let mut scene = Scene::new();
    let (first, second, x) = (scene.weight(64, GPU), scene.weight(64, CPU), scene.input(64));
    let a = scene.node("MUL_MAT", [64, 1], &[first, x]);
    let view = scene.view("VIEW", a, 64, &[a]);
    let b = scene.node("MUL_MAT", [64, 1], &[second, view]);
    scene.node("ADD", [64, 1], &[b, view]);
    let c = scene.node("MUL_MAT", [64, 1], &[first, b]);
    // As the inputs of a model with two caches.
    let other = scene.input(64);
    scene.name(other, "t2");
    scene.node("ADD", [64, 1], &[c, other]);
    scene
}

fn scheduled_snapshot(options: SchedulerOptions) -> (Snapshot, Snapshot, Vec<u64>) {
    let (scene, backends) = (scene(), gpu_and_cpu());
    let snapshot = scene.snapshot();
    let found = scene.with(&backends, |placed, typical| schedule(placed, &backends, typical, options));
    let found = found.expect("it can be scheduled");
    let bytes =
        compute_buffers(&found.scheduled, &backends, &mut captured_sizes(&snapshot)).expect("sizes are small").bytes;
    let scheduled = found.scheduled.snapshot(&snapshot, &backends, &mut captured_sizes(&snapshot));
    (snapshot, scheduled, bytes)
}

fn names<'s>(snapshot: &'s Snapshot, list: &[TensorId]) -> Vec<&'s str> {
    list.iter().map(|&id| snapshot.tensors[id as usize].name.as_str()).collect()
}

#[test]
fn copies_have_the_names_that_ggml_gives() {
    let (_, scheduled, bytes) = scheduled_snapshot(SchedulerOptions::default());
    let expected = ["t2 (view)", "GPU#t2#0", "t3", "t4", "t4 (view)", "CPU#t4#0", "t5", "t5 (view)"];
    assert_eq!(names(&scheduled, scheduled.graph.nodes())[..8], expected);
    let plan = scheduled.plan_as_recorded().expect("sizes are small");
    assert_eq!(plan.buffers.iter().map(|buffer| buffer.placement.size()).collect::<Vec<_>>(), bytes);
}

#[test]
fn graphs_of_a_scheduler_can_be_taken_back() {
    let pipeline = SchedulerOptions { copies: 4, current_copy: 1, ..SchedulerOptions::default() };
    for options in [SchedulerOptions::default(), pipeline] {
        let (snapshot, scheduled, _) = scheduled_snapshot(options);
        assert!(scheduled.tensors.len() > snapshot.tensors.len());
        let back = unscheduled(&scheduled);
        assert_eq!(names(&back, back.graph.leafs()), names(&snapshot, snapshot.graph.leafs()));
        assert_eq!(names(&back, back.graph.nodes()), names(&snapshot, snapshot.graph.nodes()));
        for (&node, &original) in back.graph.nodes().iter().zip(snapshot.graph.nodes()) {
            let sources = names(&back, back.graph.sources(node));
            assert_eq!(sources, names(&snapshot, snapshot.graph.sources(original)));
            assert_eq!(back.graph.tensor(node).flags, snapshot.graph.tensor(original).flags);
        }
        for (&leaf, &original) in back.graph.leafs().iter().zip(snapshot.graph.leafs()) {
            assert_eq!(back.graph.tensor(leaf).flags, snapshot.graph.tensor(original).flags);
        }
    }
}

#[test]
fn graph_without_copies_stays() {
    let snapshot = scene().snapshot();
    let back = unscheduled(&snapshot);
    assert_eq!(back.tensors, snapshot.tensors);
    assert_eq!(back.graph.nodes(), snapshot.graph.nodes());
}
