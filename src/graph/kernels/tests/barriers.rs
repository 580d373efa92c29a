//! Where kernels wait.

use super::{ROW, Scene};
use crate::graph::{Device, Flags, View};

#[test]
fn kernels_that_share_no_memory_run_side_by_side() {
    let mut scene = Scene::new();
    let input = scene.leaf();
    let branches: Vec<_> = (0..3).map(|_| scene.node("MUL_MAT", &[input])).collect();
    assert_eq!(scene.costs(&[]).barriers, 0);
    let apart: Vec<_> = branches.iter().zip(0..).map(|(&branch, at)| (branch, at * ROW)).collect();
    assert_eq!(scene.costs(&apart).barriers, 0);
    let overlapping: Vec<_> = branches.iter().zip(0..).map(|(&branch, at)| (branch, at * ROW / 2)).collect();
    assert_eq!(scene.costs(&overlapping).barriers, 2);
}

#[test]
fn a_kernel_waits_for_what_it_reads() {
    let mut scene = Scene::new();
    let input = scene.leaf();
    let first = scene.node("MUL_MAT", &[input]);
    let second = scene.node("SIN", &[first]);
    scene.node("COS", &[second]);
    assert_eq!(scene.costs(&[]).barriers, 2);
    // In place, a kernel waits no more often than for its source.
    assert_eq!(scene.costs(&[(first, 0), (second, 0)]).barriers, 2);
}

#[test]
fn a_kernel_waits_before_it_writes_over_what_another_reads() {
    let mut scene = Scene::new();
    let (input, other) = (scene.leaf(), scene.leaf());
    scene.node("MUL_MAT", &[input]);
    let late = scene.node("MUL_MAT", &[other]);
    assert_eq!(scene.costs(&[(input, 0), (late, ROW)]).barriers, 0);
    assert_eq!(scene.costs(&[(input, 0), (late, 0)]).barriers, 1);
}

#[test]
fn one_barrier_serves_all_kernels_before_it() {
    let mut scene = Scene::new();
    let input = scene.leaf();
    let (one, other) = (scene.node("MUL_MAT", &[input]), scene.node("MUL_MAT", &[input]));
    scene.node("SIN", &[one]);
    scene.node("SIN", &[other]);
    assert_eq!(scene.costs(&[]).barriers, 1);
}

#[test]
fn views_are_where_their_roots_are() {
    let mut scene = Scene::new();
    let input = scene.leaf();
    let product = scene.add(crate::graph::tests::sketch::List::Nodes, "MUL_MAT", 2, &[input]);
    let view = scene.node("VIEW", &[product]);
    scene.sketch.draft(view).tensor.view = Some(View { root: product, offset: ROW });
    let late = scene.node("SIN", &[view]);
    let after = scene.node("MUL_MAT", &[input]);
    assert_eq!(scene.costs(&[(product, 0), (late, 2 * ROW), (after, 0)]).barriers, 1);
    assert_eq!(scene.costs(&[(product, 0), (late, 2 * ROW), (after, ROW)]).barriers, 2);
}

#[test]
fn what_is_not_computed_has_no_kernel() {
    let mut scene = Scene::new();
    let input = scene.leaf();
    let skipped = scene.node("MUL_MAT", &[input]);
    let last = scene.node("SIN", &[skipped]);
    assert_eq!(scene.costs(&[]).barriers, 1);
    scene.sketch.flag(last, Flags::COMPUTE);
    assert_eq!(scene.costs(&[]).barriers, 0);
}

#[test]
fn nodes_of_other_devices_end_what_runs_side_by_side() {
    let mut scene = Scene::new();
    let input = scene.leaf();
    let first = scene.node("MUL_MAT", &[input]);
    let elsewhere = scene.node("SIN", &[first]);
    scene.node("COS", &[first]);
    assert_eq!(scene.costs(&[]).barriers, 1);
    scene.sketch.draft(elsewhere).buffer = 1;
    assert_eq!(scene.costs(&[]).barriers, 0);
}

#[test]
fn only_known_devices_have_costs() {
    let mut scene = Scene::new();
    let input = scene.leaf();
    let first = scene.node("MUL_MAT", &[input]);
    scene.node("SIN", &[first]);
    let unknown = [Device::Cpu, Device::Gpu, Device::Several, Device::Metal];
    assert!(unknown.into_iter().all(|device| scene.kernels(device).is_none()));
    assert_eq!(scene.costs_on(Device::Cuda, &[]).barriers, 0);
}
