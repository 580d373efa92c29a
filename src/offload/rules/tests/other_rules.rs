//! "Any operand on the GPU", and PowerInfer's rule.

use crate::graph::TensorId;
use crate::offload::rules::{
    DestinationClasses, Origin, Rule, Schedule, any_operand, captured_sizes, compute_buffers, powerinfer,
};

use super::scene::{CPU, GPU, Scene, gpu_and_cpu};

fn by_any_operand(scene: &Scene) -> Schedule {
    let backends = gpu_and_cpu();
    scene.with(&backends, |placed, typical| any_operand(placed, &backends, typical).expect("it can be placed"))
}

fn by_powerinfer(scene: &Scene, on_gpu: &[TensorId]) -> Schedule {
    let backends = gpu_and_cpu();
    let by_tensor = (0..).take(scene.memory.len()).map(|id: TensorId| on_gpu.contains(&id).then_some(GPU)).collect();
    let classes = DestinationClasses { by_tensor };
    scene.with(&backends, |placed, typical| powerinfer(placed, &backends, typical, &classes).expect("it can be placed"))
}

/// Where a node runs, and where its result stays.
fn places(found: &Schedule, node: TensorId) -> [u32; 2] {
    [found.executes[node as usize], found.resides[node as usize]].map(|backend| backend.expect("nodes have backends"))
}

#[test]
fn one_operand_on_the_gpu_is_enough() {
    let mut scene = Scene::new();
    let (weight, host_weight, x) = (scene.weight(64, GPU), scene.weight(64, CPU), scene.input(64));
    let on_host = scene.node("MUL_MAT", [64, 1], &[host_weight, x]);
    let a = scene.node("MUL_MAT", [64, 1], &[weight, on_host]);
    let b = scene.node("MUL_MAT", [64, 1], &[host_weight, a]);
    let view = scene.view("VIEW", b, 64, &[b]);
    let custom = scene.node("MAP_CUSTOM1", [64, 1], &[view]);
    let found = by_any_operand(&scene);
    let expected = [(on_host, CPU), (a, GPU), (b, GPU), (view, GPU), (custom, CPU)];
    for (node, backend) in expected {
        assert_eq!(places(&found, node), [backend; 2], "node {node}");
    }
    let inputs: Vec<_> = found.splits.iter().map(|split| split.inputs.clone()).collect();
    assert_eq!(inputs, [vec![], vec![on_host], vec![host_weight], vec![view]], "a weight is copied too");
}

#[test]
fn caches_are_written_where_they_are() {
    let mut scene = Scene::new();
    let (weight, cache, x) = (scene.weight(64, GPU), scene.cache(64, CPU), scene.input(64));
    let a = scene.node("MUL_MAT", [64, 1], &[weight, x]);
    let write = scene.view("SET_ROWS", cache, 64, &[a, x]);
    scene.node("ADD", [64, 1], &[a, a]);
    for found in [by_any_operand(&scene), by_powerinfer(&scene, &[])] {
        assert_eq!(places(&found, write), [CPU, CPU]);
    }
}

#[test]
fn powerinfer_runs_on_the_gpu_what_stays_on_the_host() {
    let mut scene = Scene::new();
    let (weight, x) = (scene.weight(64, GPU), scene.input(64));
    let a = scene.node("MUL_MAT", [64, 1], &[weight, x]);
    let b = scene.node("ADD", [64, 1], &[a, x]);
    let last = scene.node("ADD", [64, 1], &[b, x]);
    let found = by_powerinfer(&scene, &[]);
    assert_eq!(places(&found, a), [GPU, CPU]);
    assert_eq!([places(&found, b), places(&found, last)], [[CPU, CPU]; 2]);
    let nodes = found.scheduled.graph.nodes().iter().map(|&node| found.scheduled.origins[node as usize]);
    let nodes: Vec<_> = nodes.collect();
    let copy = Origin::Copy { of: x, backend: GPU, number: 0 };
    let staged =
        [Origin::Marker { of: x }, copy, Origin::Staged { of: a }, Origin::Marker { of: a }, Origin::Tensor(a)];
    assert_eq!(nodes[..5], staged, "computed on the GPU, then copied");
    let buffers = compute_buffers(&found.scheduled, &gpu_and_cpu(), &mut captured_sizes(&scene.snapshot()));
    let bytes = buffers.expect("sizes are small").bytes;
    assert_eq!(bytes[0], 128, "the copy of the input and the staged result");
}

#[test]
fn powerinfer_follows_classes_and_two_operands() {
    let mut scene = Scene::new();
    let (weight, cpu_weight, x) = (scene.weight(64, GPU), scene.weight(64, CPU), scene.input(64));
    let classed = scene.node("MUL_MAT", [64, 1], &[cpu_weight, x]);
    let second = scene.node("MUL", [64, 1], &[x, weight]);
    let third = scene.node("ADD_ID", [64, 1], &[x, x, weight]);
    let sparse = scene.node("MUL_MAT_SPARSE", [64, 1], &[cpu_weight, weight]);
    let sparse_on_gpu = scene.node("AXPY", [64, 1], &[weight, x]);
    let last = scene.node("ADD", [64, 1], &[x, x]);
    let found = by_powerinfer(&scene, &[classed, sparse, last]);
    assert_eq!(places(&found, classed), [GPU, GPU]);
    assert_eq!(places(&found, second), [GPU, CPU]);
    assert_eq!(places(&found, third), [CPU, CPU], "operand 2 does not count");
    assert_eq!(places(&found, sparse), [CPU, GPU], "a sparse product looks at operand 0 alone");
    assert_eq!(places(&found, sparse_on_gpu), [GPU, CPU]);
    assert_eq!(places(&found, last), [CPU, CPU], "logits are forced to the host");
}

#[test]
fn logits_are_known_by_name() {
    let mut scene = Scene::new();
    let (weight, x) = (scene.weight(64, GPU), scene.input(64));
    let logits = scene.node("MUL_MAT", [64, 1], &[weight, x]);
    let last = scene.node("ADD", [64, 1], &[logits, x]);
    scene.name(logits, "result_output");
    let found = by_powerinfer(&scene, &[logits, last]);
    assert_eq!([places(&found, logits), places(&found, last)], [[GPU, CPU], [GPU, GPU]]);
}

#[test]
fn layers_whose_weights_are_all_on_a_gpu_have_its_class() {
    let mut scene = Scene::new();
    let (on_gpu, on_cpu, x) = (scene.weight(64, GPU), scene.weight(64, CPU), scene.input(64));
    let whole = scene.node("MUL_MAT", [64, 1], &[on_gpu, x]);
    let norm = scene.node("RMS_NORM", [64, 1], &[whole]);
    let half = [on_gpu, on_cpu].map(|weight| scene.node("MUL_MAT", [64, 1], &[weight, norm]));
    let output = scene.node("MUL_MAT", [64, 1], &[on_gpu, half[1]]);
    for (node, name) in [(whole, "Qcur-0"), (norm, "norm-0"), (half[0], "Qcur-1"), (half[1], "Kcur-1")] {
        scene.name(node, name);
    }
    scene.name(output, "result");
    let backends = gpu_and_cpu();
    let classes = scene.with(&backends, |placed, typical| DestinationClasses::of_layers(placed, &backends, typical));
    let expected = [None, None, None, Some(GPU), Some(GPU), None, None, None];
    assert_eq!(classes.by_tensor, expected);
    let rule = Rule::PowerInfer(classes);
    let found =
        scene.with(&backends, |placed, typical| rule.place(placed, &backends, typical)).expect("it can be placed");
    assert_eq!((rule.name(), places(&found, norm)), ("powerinfer", [GPU, GPU]));
}
