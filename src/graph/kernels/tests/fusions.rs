//! Which nodes run as one kernel.

use super::{ROW, Scene};
use crate::graph::tests::sketch::List;
use crate::graph::{Device, Flags, TensorId, View};

/// A product with a bias: the source, the product, the bias and the sum.
fn biased(scene: &mut Scene) -> [TensorId; 4] {
    let (weight, input) = (scene.leaf(), scene.leaf());
    let source = scene.node("SIN", &[input]);
    let bias = scene.node("COS", &[input]);
    let product = scene.node("MUL_MAT", &[weight, source]);
    let sum = scene.node("ADD", &[product, bias]);
    [source, product, bias, sum]
}

fn fused(scene: &Scene, offsets: &[(TensorId, u64)]) -> [u32; 2] {
    let costs = scene.costs(offsets);
    [costs.fused, costs.not_fused]
}

#[test]
fn a_result_must_not_overlap_what_is_still_read() {
    let mut scene = Scene::new();
    let [source, product, bias, sum] = biased(&mut scene);
    assert_eq!(fused(&scene, &[]), [1, 0]);
    // The sum is read element by element, the source of the product is not.
    assert_eq!(fused(&scene, &[(bias, 0), (sum, 0)]), [1, 0]);
    assert_eq!(fused(&scene, &[(bias, 0), (sum, ROW / 2)]), [0, 1]);
    assert_eq!(fused(&scene, &[(source, 0), (sum, 0)]), [0, 1]);
    // Results that stay inside the kernel are never written.
    assert_eq!(fused(&scene, &[(product, 0), (sum, ROW / 2)]), [1, 0]);
}

#[test]
fn leafs_are_not_compared() {
    let mut scene = Scene::new();
    let input = scene.leaf();
    let norm = scene.node("RMS_NORM", &[input]);
    let weight = scene.leaf();
    let product = scene.node("MUL", &[norm, weight]);
    assert_eq!(fused(&scene, &[(input, 0), (product, ROW / 2)]), [1, 0]);
}

#[test]
fn a_fused_kernel_runs_once() {
    let mut scene = Scene::new();
    let [source, product, ..] = biased(&mut scene);
    // One barrier for both sources; the sum waits only where it is a separate kernel.
    assert_eq!(scene.costs(&[]).barriers, 1);
    scene.sketch.flag(product, Flags::OUTPUT);
    assert_eq!(fused(&scene, &[]), [0, 0]);
    assert_eq!(scene.costs(&[]).barriers, 2);
    assert_eq!(fused(&scene, &[(source, 0)]), [0, 0]);
}

#[test]
fn what_others_read_is_not_fused() {
    let mut scene = Scene::new();
    let [_, product, ..] = biased(&mut scene);
    scene.node("SIN", &[product]);
    assert_eq!(fused(&scene, &[]), [0, 0]);
}

#[test]
fn products_of_several_rows_are_not_fused_with_a_bias() {
    let mut scene = Scene::new();
    let (weight, input) = (scene.leaf(), scene.leaf());
    let product = scene.add(List::Nodes, "MUL_MAT", 3, &[weight, input]);
    let bias = scene.add(List::Leafs, "NONE", 3, &[]);
    scene.add(List::Nodes, "ADD", 3, &[product, bias]);
    assert_eq!(fused(&scene, &[]), [0, 0]);
}

#[test]
fn the_longest_sequence_is_fused() {
    let mut scene = Scene::new();
    let input = scene.leaf();
    let (weight, residual) = (scene.leaf(), scene.leaf());
    let norm = scene.node("RMS_NORM", &[input]);
    let product = scene.node("MUL", &[norm, weight]);
    scene.node("ADD", &[product, residual]);
    assert_eq!(fused(&scene, &[]), [1, 0]);
    let mut sum = scene.node("SIN", &[input]);
    for _ in 0..4 {
        sum = scene.node("ADD", &[sum, residual]);
    }
    assert_eq!(fused(&scene, &[]), [2, 0]);
}

#[test]
fn gates_are_fused_with_what_repeats_to_them() {
    let mut scene = Scene::new();
    let input = scene.leaf();
    let other = scene.leaf();
    let gate = scene.node("SILU", &[input]);
    scene.node("MUL", &[gate, other]);
    let unknown = scene.node("TANH", &[input]);
    scene.node("MUL", &[unknown, other]);
    assert_eq!(fused(&scene, &[]), [1, 0]);
}

/// A selection of experts: the scores, the view of the sorted numbers, and the weights.
fn selection(scene: &mut Scene) -> [TensorId; 3] {
    let input = scene.leaf();
    let scores = scene.node("MUL_MAT", &[input]);
    let probabilities = scene.node("SOFT_MAX", &[scores]);
    let rows = scene.node("RESHAPE", &[probabilities]);
    scene.sketch.draft(rows).tensor.view = Some(View { root: probabilities, offset: 0 });
    let sorted = scene.node("ARGSORT", &[probabilities]);
    let chosen = scene.node("VIEW", &[sorted]);
    scene.sketch.draft(chosen).tensor.view = Some(View { root: sorted, offset: 0 });
    let weights = scene.node("GET_ROWS", &[rows, chosen]);
    [scores, sorted, weights]
}

#[test]
fn both_results_of_a_selection_are_compared() {
    let mut scene = Scene::new();
    let [scores, sorted, weights] = selection(&mut scene);
    // Others may read the numbers of the experts.
    scene.node("SIN", &[sorted]);
    assert_eq!(fused(&scene, &[]), [0, 0]);
    let mut scene = Scene::new();
    let [_, _, weights_alone] = selection(&mut scene);
    assert_eq!(weights, weights_alone);
    assert_eq!(fused(&scene, &[]), [1, 0]);
    assert_eq!(fused(&scene, &[(scores, 0), (sorted, 0)]), [0, 1]);
    assert_eq!(fused(&scene, &[(scores, 0), (weights, 0)]), [0, 1]);
    assert_eq!(fused(&scene, &[(scores, 0), (sorted, ROW), (weights, 2 * ROW)]), [1, 0]);
    // The scale behind belongs to the kernel.
    let scaled = scene.node("SCALE", &[weights]);
    assert_eq!(fused(&scene, &[(scores, 0), (weights, 0)]), [1, 0]);
    assert_eq!(fused(&scene, &[(scores, 0), (scaled, 0)]), [0, 1]);
}

#[test]
fn gated_products_of_cuda_need_their_source() {
    let mut scene = Scene::new();
    let input = scene.leaf();
    let (up, gate) = (scene.leaf(), scene.leaf());
    let source = scene.node("SIN", &[input]);
    let products = [gate, up].map(|weight| scene.node("MUL_MAT", &[weight, source]));
    let glu = scene.node("GLU", &products);
    let costs = |offsets: &[(TensorId, u64)]| {
        let costs = scene.costs_on(Device::Cuda, offsets);
        [costs.fused, costs.not_fused]
    };
    assert_eq!(costs(&[]), [1, 0]);
    assert_eq!(costs(&[(source, 0), (glu, 0)]), [0, 1]);
    assert_eq!(costs(&[(products[0], 0), (glu, 0)]), [1, 0]);
}
