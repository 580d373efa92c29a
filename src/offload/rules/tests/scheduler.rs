//! The rule of ggml's scheduler.

use crate::graph::Device;
use crate::offload::rules::{
    Backend, Backends, BufferType, Origin, Schedule, SchedulerOptions, captured_sizes, compute_buffers,
    ggml_compute_bytes, llama_cpp_assignments, schedule,
};

use super::scene::{CPU, GPU, Scene, gpu_and_cpu};

const NO_OFFLOAD: SchedulerOptions = SchedulerOptions {
    version: super::super::SchedulerVersion::GGML_0_26,
    op_offload: false,
    copies: 1,
    current_copy: 0,
};

fn scheduled(scene: &Scene, options: SchedulerOptions) -> Schedule {
    let backends = gpu_and_cpu();
    scene.with(&backends, |placed, typical| schedule(placed, &backends, typical, options).expect("it can be scheduled"))
}

/// A product on the GPU, one on the host, and one on the GPU.
fn three_products() -> Scene {
    let mut scene = Scene::new();
    let (first, second, third) = (scene.weight(64, GPU), scene.weight(64, CPU), scene.weight(64, GPU));
    let x = scene.input(64);
    let a = scene.node("MUL_MAT", [64, 1], &[first, x]);
    let b = scene.node("MUL_MAT", [64, 1], &[second, a]);
    scene.node("MUL_MAT", [64, 1], &[third, b]);
    scene
}

#[test]
fn products_run_where_their_weights_are() {
    let found = scheduled(&three_products(), NO_OFFLOAD);
    assert_eq!(found.executes, [Some(0), Some(1), Some(0), Some(1), Some(0), Some(1), Some(0)]);
    let splits: Vec<_> = found.splits.iter().map(|split| (split.backend, split.inputs.clone())).collect();
    assert_eq!(splits, [(GPU, vec![3]), (CPU, vec![4]), (GPU, vec![5])]);
    let steps: Vec<_> = found.splits.iter().map(|split| split.steps.clone()).collect();
    assert_eq!(steps, [0..3, 3..6, 6..9], "a marker, a copy and a node each");
    let origins: Vec<_> =
        found.scheduled.graph.nodes()[..3].iter().map(|&node| found.scheduled.origins[node as usize]).collect();
    let copy = Origin::Copy { of: 3, backend: GPU, number: 0 };
    assert_eq!(origins, [Origin::Marker { of: 3 }, copy, Origin::Tensor(4)]);
    assert_eq!(found.scheduled.node_backends, [1, 0, 0, 0, 1, 1, 1, 0, 0]);
}

#[test]
fn large_batches_take_their_weights_to_the_gpu() {
    for (rows, op, runs_on) in [(31, "MUL_MAT", CPU), (32, "MUL_MAT", GPU), (32, "GET_ROWS", CPU)] {
        let mut scene = Scene::new();
        let (weight, x) = (scene.weight(64, CPU), scene.input(64 * rows));
        let product = scene.node(op, [64, rows], &[weight, x]);
        let found = scheduled(&scene, SchedulerOptions::default());
        assert_eq!(found.executes[product as usize], Some(runs_on), "{op} of {rows} rows");
        assert_eq!(found.copied_inputs(), if runs_on == GPU { 2 } else { 0 });
        let without = scheduled(&scene, NO_OFFLOAD);
        assert_eq!(without.executes[product as usize], Some(CPU));
    }
}

#[test]
fn weights_that_are_copied_begin_a_split_each() {
    let mut scene = Scene::new();
    let (first, second, x) = (scene.weight(4096, CPU), scene.weight(4096, CPU), scene.input(2048));
    let a = scene.node("MUL_MAT", [64, 32], &[first, x]);
    scene.node("MUL_MAT", [64, 32], &[second, a]);
    let found = scheduled(&scene, SchedulerOptions::default());
    let inputs: Vec<_> = found.splits.iter().map(|split| split.inputs.clone()).collect();
    assert_eq!(inputs, [vec![first, x], vec![second]]);
    let backends = gpu_and_cpu();
    let buffers = compute_buffers(&found.scheduled, &backends, &mut captured_sizes(&scene.snapshot()));
    let bytes = buffers.expect("sizes are small").bytes;
    assert_eq!(bytes, [2 * 2048 + 4096, 2048], "the copies of both weights share memory");
}

#[test]
fn writes_into_a_cache_run_where_the_cache_is() {
    let mut scene = Scene::new();
    let (weight, cache, x) = (scene.weight(64, GPU), scene.cache(64, CPU), scene.input(64));
    let a = scene.node("MUL_MAT", [64, 1], &[weight, x]);
    let write = scene.view("SET_ROWS", cache, 64, &[a, x]);
    let found = scheduled(&scene, NO_OFFLOAD);
    assert_eq!([found.executes[a as usize], found.executes[write as usize]], [Some(GPU), Some(CPU)]);
}

#[test]
fn program_assigns_nodes_before_anything_else() {
    let mut scene = three_products();
    scene.assigned.push((4, CPU));
    let found = scheduled(&scene, NO_OFFLOAD);
    assert_eq!(found.executes[4], Some(CPU));
    let first = &found.splits[0];
    assert_eq!((first.backend, &first.inputs[..]), (CPU, &[0][..]), "the weight is copied to the CPU");
}

#[test]
fn pipelines_copy_inputs_four_times() {
    let options = SchedulerOptions { copies: 4, current_copy: 2, ..NO_OFFLOAD };
    let found = scheduled(&three_products(), options);
    let copies = |list: &[u32]| -> Vec<_> {
        let origins = list.iter().map(|&id| found.scheduled.origins[id as usize]);
        origins.filter(|origin| matches!(origin, Origin::Copy { of: 3, .. } | Origin::Tensor(3))).collect()
    };
    let on = |backend, number| Origin::Copy { of: 3, backend, number };
    let leafs = copies(found.scheduled.graph.leafs());
    let own = [on(CPU, 0), on(CPU, 1), Origin::Tensor(3), on(CPU, 3)];
    let of_split = [on(GPU, 0), on(GPU, 1), on(GPU, 2), on(GPU, 3)];
    assert_eq!(leafs, [&own[..], &of_split[..], &[Origin::Tensor(3)]].concat());
    assert_eq!(copies(found.scheduled.graph.nodes()), [on(GPU, 2)]);
}

#[test]
fn backends_with_one_buffer_type_share_a_compute_buffer() {
    let mut backends = gpu_and_cpu();
    backends.list.insert(0, Backend { name: "BLAS".to_owned(), buffer_type: 1 });
    assert_eq!((backends.compute_types(), backends.compute_buffers()), (vec![1, 0], vec![0, 1, 0]));
    let mut scene = Scene::new();
    let (weight, x) = (scene.weight(64, 1), scene.input(64));
    let product = scene.node("MUL_MAT", [64, 1], &[weight, x]);
    let found = scene.with(&backends, |placed, typical| schedule(placed, &backends, typical, NO_OFFLOAD));
    let found = found.expect("it can be scheduled");
    assert_eq!((found.executes[product as usize], found.splits.len()), (Some(0), 1), "BLAS comes first");
    let snapshot = scene.snapshot();
    let bytes =
        ggml_compute_bytes(&found.scheduled, &backends, &mut captured_sizes(&snapshot)).expect("sizes are small");
    assert_eq!(bytes, [128, 0, 0], "at the first backend alone");
}

#[test]
fn gpu_does_not_read_the_memory_of_another() {
    let mut backends = gpu_and_cpu();
    backends.list.insert(1, Backend { name: "GPU2".to_owned(), buffer_type: 2 });
    backends.buffer_types.push(BufferType::new("GPU2", Device::Gpu, false, 16));
    let mut scene = Scene::new();
    let (weight, x) = (scene.weight(64, 2), scene.input(64));
    let product = scene.node("MUL_MAT", [64, 1], &[weight, x]);
    let next = scene.node("ADD", [64, 1], &[product, x]);
    let found = scene.with(&backends, |placed, typical| schedule(placed, &backends, typical, NO_OFFLOAD));
    let found = found.expect("it can be scheduled");
    assert_eq!([found.executes[product as usize], found.executes[next as usize]], [Some(1); 2]);
}

#[test]
fn llama_cpp_assigns_the_norms_of_its_layers() {
    let mut scene = Scene::new();
    let x = scene.input(64);
    let norms: Vec<_> = (0..4).map(|_| scene.node("RMS_NORM", [64, 1], &[x])).collect();
    for (&norm, name) in norms.iter().zip(["norm-0", "norm-1", "attn_norm-1", "l_last-1"]) {
        scene.name(norm, name);
    }
    let backends = Backends { ..gpu_and_cpu() };
    let assigned = scene
        .with(&backends, |placed, typical| llama_cpp_assignments(placed, typical, |layer| (layer == 1).then_some(GPU)));
    assert_eq!(assigned, [(norms[1], GPU), (norms[3], GPU)]);
}
