//! What the simulator finds is told with both tensors, their steps and the bytes; and what is free is known.

use crate::graph::{
    Corruption, Finding, Flags, Operation, Places, Region, Rules, Slots, TensorId, Words, describe, freed, owner_at,
    simulate_at,
};

use super::sketch::Sketch;

struct Numbers;

impl Words for Numbers {
    fn tensor(&self, tensor: TensorId) -> String {
        format!("T{tensor}")
    }

    fn space(&self, space: u32) -> String {
        format!("S{space}")
    }
}

/// Two leafs, and three nodes of 64 bytes, each tensor right behind the one before: the first node is read by the second
/// and the third.
fn sample() -> (Sketch, [TensorId; 5], Places) {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let y = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let b = sketch.node(64, &[a, y]);
    let c = sketch.node(64, &[b, a]);
    let region = |index: u64| Some(Region { space: 0, start: 64 * index, end: 64 * index + 64 });
    let places = Places { spaces: vec![400], regions: (0..5).map(region).collect() };
    (sketch, [x, y, a, b, c], places)
}

fn findings(sketch: &Sketch, places: &Places) -> Vec<Finding> {
    let graph = sketch.graph();
    simulate_at(&graph, places, &vec![64; graph.tensors().len()], 100)
}

/// What is said when a tensor starts elsewhere.
fn said(tensor: usize, start: u64) -> Vec<String> {
    let (sketch, _, mut places) = sample();
    places.regions[tensor] = Some(Region { space: 0, start, end: start.wrapping_add(64) });
    findings(&sketch, &places).iter().map(|finding| describe(&sketch.graph(), finding, &Numbers)).collect()
}

#[test]
fn right_places_have_no_findings() {
    let (sketch, _, places) = sample();
    assert_eq!(findings(&sketch, &places), []);
}

#[test]
fn colliding_bytes_are_told() {
    assert_eq!(
        said(1, 32),
        ["T0 and T1 must both be there before the first step, and share bytes 32 to 63 of S0 (32 bytes)"]
    );
    assert_eq!(
        said(2, 48)[0],
        "step 0, T2, overwrites T0, which is there from the start, while it still reads it: both lie in bytes 48 to 63 of S0 (16 bytes)"
    );
    assert_eq!(
        said(2, 100),
        [
            "step 1, T3, needs T1, which is there from the start, but T2, which step 0 computes, has overwritten it in bytes 100 to 127 of S0 (28 bytes)"
        ]
    );
    assert_eq!(
        said(4, 380),
        [
            "T4, which step 2 computes, reaches beyond the end of its memory: bytes 400 to 443 of S0 (44 bytes) are not there"
        ]
    );
    assert!(said(4, 0_u64.wrapping_sub(128))[0].contains("memory that begins 128 bytes before the start of S0"));
}

#[test]
fn tensors_that_harm_one_another_are_told_once() {
    let (mut sketch, [x, _, a, b, c], mut places) = sample();
    let d = sketch.node(64, &[c, a]);
    let e = sketch.node(64, &[d, a]);
    sketch.flag(x, Flags::OUTPUT);
    places.spaces[0] = 1000;
    places
        .regions
        .extend([Some(Region { space: 0, start: 500, end: 564 }), Some(Region { space: 0, start: 600, end: 664 })]);
    places.regions[b as usize] = places.regions[a as usize];
    places.regions[e as usize] = places.regions[x as usize];
    let found: Vec<Corruption> = findings(&sketch, &places).iter().map(|finding| finding.corruption).collect();
    let lost = Corruption::LostResult { wanted: x, found: Some(e) };
    assert_eq!(found, [Corruption::OverwritesSource { step: 1, source: a }, lost]);
    assert_eq!(simulate_at(&sketch.graph(), &places, &[64; 7], 1).len(), 1, "as many as are wanted");
    let about = |corruption: Corruption| corruption.tensors(&sketch.graph()).collect::<Vec<_>>();
    assert_eq!((about(found[0]), about(lost)), (vec![a, b], vec![x, e]));
}

#[test]
fn places_of_a_plan_are_those_of_its_chunks() {
    let (sketch, [x, ..], _) = sample();
    let mut plan = sketch.plan(Rules::ALL);
    let places = Places::of_plan(&plan);
    assert_eq!(places.spaces, plan.buffers[0].placement.chunks);
    assert!(places.regions.iter().flatten().all(|&region| places.contain(region)));
    super::sketch::location(&mut plan, x).chunk = 3;
    let region = Places::of_plan(&plan).region(x).expect("it has memory");
    assert!(!places.contain(region), "there is no such chunk");
}

#[test]
fn computed_bytes_are_free_after_their_last_reader() {
    let (sketch, [x, y, a, b, c], places) = sample();
    let (graph, region) = (sketch.graph(), |id: TensorId| places.regions[id as usize].expect("each has memory"));
    let freed = freed(&graph, &places);
    assert_eq!(freed.at_start, [Region { space: 0, start: 128, end: 400 }], "all but the leafs");
    assert_eq!(freed.after, [vec![], vec![], vec![region(a), region(b)]], "leafs stay, and so does the result");
    for (step, id, owner) in
        [(0, a, None), (1, a, Some(a)), (2, b, Some(b)), (0, x, Some(x)), (2, y, Some(y)), (2, c, None)]
    {
        assert_eq!(owner_at(&graph, &places, step, region(id)), owner, "{id} at step {step}");
    }
}

#[test]
fn bytes_that_were_taken_over_are_not_free() {
    let (mut sketch, [_, _, a, b, c], mut places) = sample();
    sketch.draft(c).tensor.operation = Operation::Listed(Slots::ALL);
    places.regions[c as usize] = places.regions[b as usize];
    let freed = freed(&sketch.graph(), &places);
    assert_eq!(freed.after[2], [places.regions[a as usize].expect("it has memory")]);
}
