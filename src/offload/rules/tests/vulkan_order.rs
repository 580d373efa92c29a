//! The order in which ggml's Vulkan backend runs nodes. `cargo hosts vulkan` compares its compute buffers with the real
//! ones.

use crate::graph::TensorId;
use crate::offload::rules::{Backend, Backends, Capabilities, KeptUntil, TypicalBackends, schedule};
use crate::offload::rules::{Origin, PlacedGraph, SchedulerOptions};

use super::scene::{GPU, Scene, gpu_and_cpu};

fn backends(name: &str) -> Backends {
    let mut backends = gpu_and_cpu();
    backends.list[0] = Backend { name: name.to_owned(), ..backends.list[0].clone() };
    backends
}

/// Returns the nodes as a GPU of this name runs them, and the tensors that it keeps longer.
fn ordered(scene: &Scene, name: &str) -> (Vec<TensorId>, Vec<KeptUntil>) {
    let backends = backends(name);
    let snapshot = scene.snapshot();
    let placed = PlacedGraph { snapshot: &snapshot, memory: &scene.memory, assigned: &[] };
    let mut nodes = snapshot.graph.nodes().to_vec();
    let kept = TypicalBackends::new(placed, &backends).optimize(GPU, &mut nodes, &|_| false);
    (nodes, kept)
}

#[test]
fn nodes_that_wait_for_nothing_come_forward() {
    let mut scene = Scene::new();
    let weights = [(); 3].map(|()| scene.weight(64, GPU));
    let x = scene.input(64);
    let a = scene.node("MUL_MAT", [64, 1], &[weights[0], x]);
    let b = scene.node("MUL_MAT", [64, 1], &[weights[1], a]);
    let c = scene.node("MUL_MAT", [64, 1], &[weights[2], x]);
    let d = scene.node("MUL", [64, 1], &[b, c]);
    assert_eq!(ordered(&scene, "Vulkan0"), (vec![a, c, b, d], Vec::new()));
    assert_eq!(ordered(&scene, "CUDA0").0, [a, b, c, d], "other backends keep the order");
}

#[test]
fn nodes_of_one_kernel_stay_together() {
    let mut scene = Scene::new();
    let (weight, bias, x) = (scene.weight(64, GPU), scene.weight(64, GPU), scene.input(64));
    let norm = scene.node("RMS_NORM", [64, 1], &[x]);
    let other = scene.node("MUL_MAT", [64, 1], &[weight, x]);
    let scaled = scene.node("MUL", [64, 1], &[norm, weight]);
    let sum = scene.node("ADD", [64, 1], &[other, bias]);
    // Once another node came between, the norm and the product are two kernels.
    assert_eq!(ordered(&scene, "Vulkan0").0, [norm, other, scaled, sum]);

    let mut scene = Scene::new();
    let (weight, x) = (scene.weight(64, GPU), scene.input(64));
    let norm = scene.node("RMS_NORM", [64, 1], &[x]);
    let scaled = scene.node("MUL", [64, 1], &[norm, weight]);
    let product = scene.node("MUL_MAT", [64, 1], &[weight, scaled]);
    let view = scene.view("VIEW", product, 64, &[product]);
    let other = scene.node("MUL_MAT", [64, 1], &[weight, x]);
    assert_eq!(ordered(&scene, "Vulkan0").0, [norm, scaled, other, product, view]);
}

#[test]
fn memory_that_is_written_twice_keeps_its_order() {
    let mut scene = Scene::new();
    let (cache, rows, ids) = (scene.cache(64, GPU), scene.input(64), scene.input(8));
    let first = scene.view("SET_ROWS", cache, 64, &[rows, ids]);
    let read = scene.node("MUL_MAT", [64, 1], &[cache, rows]);
    let second = scene.view("SET_ROWS", cache, 64, &[read, ids]);
    let free = scene.node("MUL_MAT", [64, 1], &[rows, rows]);
    assert_eq!(ordered(&scene, "Vulkan0").0, [first, free, read, second]);
}

#[test]
fn inputs_of_chosen_experts_are_kept_until_their_kernel_ends() {
    let mut scene = Scene::new();
    let (weight, x) = (scene.weight(64, GPU), scene.input(64));
    let scores = scene.node("MUL_MAT", [64, 1], &[weight, x]);
    let free = scene.node("MUL_MAT", [64, 1], &[weight, scores]);
    let soft = scene.node("SOFT_MAX", [64, 1], &[scores]);
    let shaped = scene.view("RESHAPE", soft, 64, &[soft]);
    let sorted = scene.node("ARGSORT", [64, 1], &[soft]);
    let view = scene.view("VIEW", sorted, 64, &[sorted]);
    let chosen = scene.node("GET_ROWS", [64, 1], &[shaped, view]);
    let scaled = scene.node("SCALE", [64, 1], &[chosen]);
    let late = scene.node("MUL_MAT", [64, 1], &[weight, x]);
    let (nodes, kept) = ordered(&scene, "Vulkan0");
    assert_eq!(nodes, [scores, late, free, soft, shaped, sorted, view, chosen, scaled]);
    assert_eq!(kept, [KeptUntil { tensor: scores, until: scaled }]);
}

#[test]
fn schedules_have_the_order_of_the_backend() {
    let mut scene = Scene::new();
    let weights = [(); 3].map(|()| scene.weight(64, GPU));
    let x = scene.input(64);
    let a = scene.node("MUL_MAT", [64, 1], &[weights[0], x]);
    let b = scene.node("MUL_MAT", [64, 1], &[weights[1], a]);
    let c = scene.node("MUL_MAT", [64, 1], &[weights[2], x]);
    let order = |name: &str| {
        let backends = backends(name);
        let schedule = scene.with(&backends, |placed, typical| {
            schedule(placed, &backends, typical, SchedulerOptions::default()).expect("it can be scheduled")
        });
        let origin = |&node: &TensorId| schedule.scheduled.origins[node as usize];
        let of_graph = |origin| if let Origin::Tensor(id) = origin { Some(id) } else { None };
        schedule.scheduled.graph.nodes().iter().map(origin).filter_map(of_graph).collect::<Vec<_>>()
    };
    assert_eq!((order("Vulkan0"), order("GPU")), (vec![a, c, b], vec![a, b, c]));
}
