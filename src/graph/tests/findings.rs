//! Findings are described with both tensors, their steps and the bytes; and freed bytes are reported.

use crate::graph::{
    AddressMap, Corruption, Finding, Flags, InPlace, Labels, Region, Rules, Slots, TensorId, describe, freed, owner_at,
    simulate_at,
};

use super::sketch::Sketch;

struct Numbers;

impl Labels for Numbers {
    fn tensor(&self, tensor: TensorId) -> String {
        format!("T{tensor}")
    }

    fn space(&self, space: u32) -> String {
        format!("S{space}")
    }
}

/// Two leafs, and three nodes of 64 bytes, each tensor right after the one before: the second and the third node use
/// the first.
fn sample() -> (Sketch, [TensorId; 5], AddressMap) {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let y = sketch.leaf(64);
    let a = sketch.node(64, &[x]);
    let b = sketch.node(64, &[a, y]);
    let c = sketch.node(64, &[b, a]);
    let region = |index: u64| Some(Region { space: 0, start: 64 * index, end: 64 * index + 64 });
    let addresses = AddressMap { spaces: vec![400], regions: (0..5).map(region).collect() };
    (sketch, [x, y, a, b, c], addresses)
}

fn findings(sketch: &Sketch, addresses: &AddressMap) -> Vec<Finding> {
    let graph = sketch.graph();
    simulate_at(&graph, addresses, &vec![64; graph.tensors().len()], 100)
}

/// Returns the descriptions of all findings if a tensor starts elsewhere.
fn described(tensor: usize, start: u64) -> Vec<String> {
    let (sketch, _, mut addresses) = sample();
    addresses.regions[tensor] = Some(Region { space: 0, start, end: start.wrapping_add(64) });
    findings(&sketch, &addresses).iter().map(|finding| describe(&sketch.graph(), finding, &Numbers)).collect()
}

#[test]
fn correct_addresses_have_no_findings() {
    let (sketch, _, addresses) = sample();
    assert_eq!(findings(&sketch, &addresses), []);
}

#[test]
fn colliding_bytes_are_described() {
    assert_eq!(
        described(1, 32),
        ["T0 and T1 must both be there before the first step, and share bytes 32 to 63 of S0 (32 bytes)"]
    );
    assert_eq!(
        described(2, 48)[0],
        "step 0, T2, overwrites T0, which is there from the start, while it still reads it: both lie in bytes 48 to 63 of S0 (16 bytes)"
    );
    assert_eq!(
        described(2, 100),
        [
            "step 1, T3, needs T1, which is there from the start, but T2, which step 0 computes, has overwritten it in bytes 100 to 127 of S0 (28 bytes)"
        ]
    );
    assert_eq!(
        described(4, 380),
        [
            "T4, which step 2 computes, reaches beyond the end of its memory: bytes 400 to 443 of S0 (44 bytes) are not there"
        ]
    );
    assert!(described(4, 0_u64.wrapping_sub(128))[0].contains("memory that begins 128 bytes before the start of S0"));
}

#[test]
fn each_pair_of_tensors_is_reported_once() {
    let (mut sketch, [x, _, a, b, c], mut addresses) = sample();
    let d = sketch.node(64, &[c, a]);
    let e = sketch.node(64, &[d, a]);
    sketch.flag(x, Flags::OUTPUT);
    addresses.spaces[0] = 1000;
    addresses
        .regions
        .extend([Some(Region { space: 0, start: 500, end: 564 }), Some(Region { space: 0, start: 600, end: 664 })]);
    addresses.regions[b as usize] = addresses.regions[a as usize];
    addresses.regions[e as usize] = addresses.regions[x as usize];
    let found: Vec<Corruption> = findings(&sketch, &addresses).iter().map(|finding| finding.corruption).collect();
    let lost = Corruption::LostResult { expected: x, found: Some(e) };
    assert_eq!(found, [Corruption::OverwritesSource { step: 1, source: a }, lost]);
    assert_eq!(simulate_at(&sketch.graph(), &addresses, &[64; 7], 1).len(), 1, "as many as the limit");
    let about = |corruption: Corruption| corruption.tensors(&sketch.graph()).collect::<Vec<_>>();
    assert_eq!((about(found[0]), about(lost)), (vec![a, b], vec![x, e]));
}

#[test]
fn address_spaces_of_a_plan_are_its_chunks() {
    let (sketch, [x, ..], _) = sample();
    let mut plan = sketch.plan(Rules::ALL);
    let addresses = AddressMap::of_plan(&plan);
    assert_eq!(addresses.spaces, plan.buffers[0].placement.chunks);
    assert!(addresses.regions.iter().flatten().all(|&region| addresses.contain(region)));
    super::sketch::location(&mut plan, x).chunk = 3;
    let region = AddressMap::of_plan(&plan).region(x).expect("it has memory");
    assert!(!addresses.contain(region), "an unknown chunk");
}

#[test]
fn computed_bytes_are_free_after_their_last_use() {
    let (sketch, [x, y, a, b, c], addresses) = sample();
    let (graph, region) = (sketch.graph(), |id: TensorId| addresses.regions[id as usize].expect("each has memory"));
    let freed = freed(&graph, &addresses);
    assert_eq!(freed.at_start, [Region { space: 0, start: 128, end: 400 }], "all but the leafs");
    assert_eq!(freed.after, [vec![], vec![], vec![region(a), region(b)]], "leafs stay, and so does the result");
    for (step, id, owner) in
        [(0, a, None), (1, a, Some(a)), (2, b, Some(b)), (0, x, Some(x)), (2, y, Some(y)), (2, c, None)]
    {
        assert_eq!(owner_at(&graph, &addresses, step, region(id)), owner, "{id} at step {step}");
    }
}

#[test]
fn bytes_of_an_in_place_source_are_not_free() {
    let (mut sketch, [_, _, a, b, c], mut addresses) = sample();
    sketch.draft(c).tensor.in_place = InPlace::Listed(Slots::ALL);
    addresses.regions[c as usize] = addresses.regions[b as usize];
    let freed = freed(&sketch.graph(), &addresses);
    assert_eq!(freed.after[2], [addresses.regions[a as usize].expect("it has memory")]);
}
