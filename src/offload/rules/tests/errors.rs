//! Graphs that cannot be placed.

use super::scene::{CPU, GPU, Scene, gpu_and_cpu};
use crate::offload::rules::{
    Backends, DestinationClasses, OffloadError, Rule, SchedulerOptions, SchedulerVersion, TensorMemory, Usage,
};

fn product() -> Scene {
    let mut scene = Scene::new();
    let (weight, x) = (scene.weight(64, GPU), scene.input(64));
    scene.node("MUL_MAT", [64, 1], &[weight, x]);
    scene
}

fn error_of(scene: &Scene, backends: &Backends, rule: &Rule) -> OffloadError {
    let found = scene.with(backends, |placed, typical| rule.place(placed, backends, typical));
    found.expect_err("it cannot be placed")
}

fn scheduler() -> Rule {
    Rule::Scheduler(SchedulerOptions::default())
}

fn all_rules() -> [Rule; 3] {
    [scheduler(), Rule::AnyOperand, Rule::PowerInfer(DestinationClasses::default())]
}

#[test]
fn lists_must_fit_together() {
    for rule in all_rules() {
        let mut scene = product();
        scene.memory[0] = None;
        let message = error_of(&scene, &gpu_and_cpu(), &rule).to_string();
        let expected = "tensor 0 \"t0\" (NONE) has memory that is never planned: state the buffer type that it is in";
        assert_eq!(message, expected);
        scene.memory.pop();
        let message = error_of(&scene, &gpu_and_cpu(), &rule).to_string();
        assert_eq!(message, "the list of memory has 2 entries for 3 tensors: it needs one for each");
        scene = product();
        scene.memory[0] = Some(TensorMemory { buffer_type: 7, usage: Usage::Weights });
        let message = error_of(&scene, &gpu_and_cpu(), &rule).to_string();
        assert_eq!(message, "tensor 0 \"t0\" (NONE) refers to buffer type 7: there are 2, counted from 0");
        scene = product();
        scene.assigned.push((3, CPU));
        let message = error_of(&scene, &gpu_and_cpu(), &rule).to_string();
        let expected = "tensor 3 is assigned to backend 1: there are 3 tensors and 2 backends, counted from 0";
        assert_eq!(message, expected);
    }
}

#[test]
fn backends_are_checked() {
    let mut many = gpu_and_cpu();
    many.list.resize_with(17, || gpu_and_cpu().list.remove(1));
    for rule in all_rules() {
        let mut none = gpu_and_cpu();
        none.list.clear();
        assert_eq!(error_of(&product(), &none, &rule), OffloadError::NoBackends);
        assert_eq!(error_of(&product(), &many, &rule), OffloadError::TooManyBackends { count: 17 });
    }
}

#[test]
fn current_copy_is_one_of_the_copies() {
    for (copies, current_copy) in [(0, 0), (1, 1), (4, 4)] {
        let rule = Rule::Scheduler(SchedulerOptions { copies, current_copy, ..SchedulerOptions::default() });
        let expected = OffloadError::InvalidCopies { copies, current: current_copy };
        assert_eq!(error_of(&product(), &gpu_and_cpu(), &rule), expected);
    }
}

#[test]
fn class_must_be_a_backend() {
    let rule = Rule::PowerInfer(DestinationClasses { by_tensor: vec![None, None, Some(2)] });
    let expected = OffloadError::UnknownAssignment { tensor: 2, backend: 2, tensors: 3, count: 2 };
    assert_eq!(error_of(&product(), &gpu_and_cpu(), &rule), expected);
}

#[test]
fn operation_on_memory_that_its_backend_cannot_run_is_refused() {
    let mut scene = Scene::new();
    let (cache, x) = (scene.cache(64, GPU), scene.input(64));
    scene.view("MAP_CUSTOM1", cache, 64, &[x]);
    let error = error_of(&scene, &gpu_and_cpu(), &scheduler());
    assert!(matches!(&error, OffloadError::CannotRunInPlace { buffer_type, .. } if buffer_type == "GPU"), "{error}");
}

#[test]
fn node_that_no_backend_supports_is_refused() {
    let mut scene = Scene::new();
    let x = scene.input(64);
    scene.node("MAP_CUSTOM1", [64, 1], &[x]);
    let mut gpu_alone = gpu_and_cpu();
    gpu_alone.list.pop();
    for rule in all_rules() {
        let error = error_of(&scene, &gpu_alone, &rule);
        assert!(matches!(error, OffloadError::Unsupported { .. }), "{error}");
    }
}

#[test]
fn leaf_that_nothing_uses_has_no_backend() {
    let mut scene = Scene::new();
    scene.unflagged_leaf(64);
    let x = scene.input(64);
    scene.node("ADD", [64, 1], &[x, x]);
    let error = error_of(&scene, &gpu_and_cpu(), &scheduler());
    assert!(matches!(error, OffloadError::Unassigned { .. }), "{error}");
}

#[test]
fn splits_of_old_versions_have_a_limit() {
    let mut scene = Scene::new();
    let weight = scene.weight(64, GPU);
    let inputs: Vec<_> = (0..31).map(|_| scene.input(64)).collect();
    let sources: Vec<_> = std::iter::once(weight).chain(inputs).collect();
    scene.node("MUL_MAT", [64, 1], &sources);
    let options = SchedulerOptions { version: SchedulerVersion::GGML_0_9_5, ..SchedulerOptions::default() };
    let error = error_of(&scene, &gpu_and_cpu(), &Rule::Scheduler(options));
    assert!(matches!(error, OffloadError::TooManyInputs { limit: 30, .. }), "{error}");
}
