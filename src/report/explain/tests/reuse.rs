//! Memory saved by sharing.

use super::scene::Scene;
use crate::graph::{Flags, Rules};
use crate::report::explain::Alias;

fn listed(aliases: &[Alias]) -> Vec<(&str, &str, u64)> {
    aliases.iter().map(|it| (it.tensor.name.as_str(), it.memory_of.name.as_str(), it.bytes)).collect()
}

#[test]
fn results_in_place_are_listed_largest_first() {
    let mut scene = Scene::new(Rules::ALL);
    let x0 = scene.input(16);
    let n1 = scene.node(64, &[x0]);
    let n2 = scene.sketch.in_place(64, &[n1]);
    let n3 = scene.node(100, &[n2]);
    let n4 = scene.sketch.in_place(100, &[n3]);
    scene.node(16, &[n4]);
    let explained = scene.explained();
    assert_eq!(listed(&explained.reuse.in_place), [("n4", "n3", 112), ("n2", "n1", 64)]);
    assert_eq!((explained.reuse.bytes, explained.lower_bound), (176, 176));
    assert_eq!(explained.reuse.lower_bound_without, Some(224));
}

#[test]
fn operands_inside_a_concat_are_listed() {
    let mut scene = Scene::new(Rules::ALL);
    let x0 = scene.input(16);
    let n1 = scene.node(96, &[x0]);
    let n2 = scene.node(96, &[x0]);
    let n3 = scene.sketch.concat([n1, n2], 192);
    scene.node(16, &[n3]);
    let explained = scene.explained();
    assert_eq!(listed(&explained.reuse.inside_concat), [("n1", "n3", 96), ("n2", "n3", 96)]);
    assert_eq!((explained.lower_bound, explained.reuse.lower_bound_without), (208, Some(384)));
}

#[test]
fn unread_inputs_are_listed() {
    let unread = |rules: Rules| {
        let mut scene = Scene::new(rules);
        let x0 = scene.input(16);
        scene.input(128);
        let n2 = scene.node(16, &[x0]);
        scene.node(128, &[n2]);
        scene.explained()
    };
    let explained = unread(Rules::ALL);
    let inputs: Vec<_> = explained.reuse.unread_inputs.iter().map(|it| (it.tensor.name.as_str(), it.bytes)).collect();
    assert_eq!(inputs, [("x1", 128)]);
    assert_eq!((explained.lower_bound, explained.reuse.lower_bound_without), (160, Some(272)));
    assert!(unread(Rules::GGML).reuse.unread_inputs.is_empty());
}

#[test]
fn inactive_nodes_are_listed_with_the_inputs_that_only_they_read() {
    let selected = |rules: Rules| {
        let mut scene = Scene::new(rules);
        let [x0, x1] = [16, 64].map(|size| scene.input(size));
        scene.node(128, &[x1]);
        let n3 = scene.node(16, &[x0]);
        let n4 = scene.node(128, &[n3]);
        [n3, n4].iter().for_each(|&id| scene.sketch.flag(id, Flags::COMPUTE));
        scene.explained()
    };
    let explained = selected(Rules::ALL);
    let inactive: Vec<_> = explained.reuse.inactive.iter().map(|it| (it.tensor.name.as_str(), it.bytes)).collect();
    assert_eq!((inactive, explained.reuse.bytes), (vec![("n2", 128), ("x1", 64)], 192));
    assert!(explained.reuse.unread_inputs.is_empty());
    assert!(selected(Rules::GGML).reuse.inactive.is_empty());
}
