//! Chosen cuts, against all cuts that there are.

use crate::graph::tests::sketch::{List, Sketch};
use crate::graph::{PlanError, Rules, TensorId};
use crate::placement::{Bytes, Step};

use super::{all_cuts, chosen, compute, planned, with_planner};
use crate::graph::steps::choose_cuts;

/// Numbers from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Nodes that use one or two of the tensors before them, usually the latest; some are views, some in place.
fn random(seed: u64, nodes: usize, rules: Rules) -> Sketch {
    let mut numbers = Numbers(seed);
    let mut sketch = Sketch::new();
    sketch.buffers[0].rules = rules;
    let mut known: Vec<TensorId> = vec![sketch.leaf(16)];
    while sketch.requests(List::Nodes).len() < nodes {
        let mut pick = || known[known.len() - 1 - usize::try_from(numbers.below(4)).unwrap_or(0).min(known.len() - 1)];
        let sources = [pick(), pick()];
        let size = 16 * (1 + numbers.below(8));
        let same = sketch.drafts[sources[0] as usize].size;
        known.push(match numbers.below(5) {
            0 if sketch.drafts[sources[0] as usize].tensor.view.is_none() => sketch.view(sources[0], 0, 16),
            1 => sketch.in_place(same, &sources),
            _ => sketch.node(size, &sources),
        });
    }
    sketch
}

fn lowest(sketch: &Sketch, nodes: Step, parts: usize) -> Bytes {
    all_cuts(0..nodes, parts).iter().map(|cuts| planned(sketch, cuts).peak()).min().expect("there is a way")
}

#[test]
fn chosen_cuts_have_the_lowest_peak_of_all() {
    for seed in 0..60 {
        let sketch = random(seed, 8, Rules::NONE);
        for parts in 1..=8 {
            let cuts = chosen(&sketch, parts);
            assert_eq!(cuts.len(), parts - 1, "seed {seed}");
            assert_eq!(planned(&sketch, &cuts).peak(), lowest(&sketch, 8, parts), "seed {seed}, {parts} parts");
        }
    }
}

#[test]
fn chosen_cuts_have_the_lowest_peak_with_results_in_place() {
    for seed in 0..60 {
        let sketch = random(seed, 8, Rules::ALL);
        for parts in 2..=4 {
            let cuts = chosen(&sketch, parts);
            assert_eq!(planned(&sketch, &cuts).peak(), lowest(&sketch, 8, parts), "seed {seed}, {parts} parts");
        }
    }
}

/// Returns the peak and the bytes of the largest compute buffer.
fn most(sketch: &Sketch, cuts: &[Step]) -> (Bytes, Bytes) {
    let plan = planned(sketch, cuts);
    (plan.peak(), compute(&plan).into_iter().max().unwrap_or(0))
}

#[test]
fn among_equal_peaks_the_largest_compute_buffer_is_smallest() {
    for seed in 0..60 {
        let sketch = random(seed, 8, Rules::NONE);
        for parts in 2..=5 {
            let least = all_cuts(0..8, parts).iter().map(|cuts| most(&sketch, cuts)).min();
            assert_eq!(Some(most(&sketch, &chosen(&sketch, parts))), least, "seed {seed}, {parts} parts");
        }
    }
}

#[test]
fn among_equal_buffers_the_fewest_bytes_cross() {
    let mut sketch = Sketch::new();
    let mut last = sketch.leaf(16);
    for size in [256, 256, 16, 64, 32, 64, 16] {
        last = sketch.node(size, &[last]);
    }
    let sum = |cuts: &Vec<Step>| planned(&sketch, cuts).crossing.iter().map(|it| it.size).sum::<Bytes>();
    let least = all_cuts(0..7, 3).iter().map(|cuts| (most(&sketch, cuts), sum(cuts))).min();
    let cuts = chosen(&sketch, 3);
    assert_eq!(Some((most(&sketch, &cuts), sum(&cuts))), least);
}

#[test]
fn the_same_graph_is_cut_in_the_same_way() {
    for seed in 0..5 {
        let sketch = random(seed, 900, Rules::ALL);
        let first = chosen(&sketch, 6);
        assert_eq!(first, chosen(&sketch, 6));
        let evenly: Vec<Step> = (1..6).map(|part| part * 150 - 1).collect();
        assert!(planned(&sketch, &first).peak() <= planned(&sketch, &evenly).peak(), "seed {seed}");
    }
}

#[test]
fn as_many_parts_as_nodes_are_possible() {
    let sketch = random(3, 1200, Rules::NONE);
    assert_eq!(chosen(&sketch, 1200), (0..1199).collect::<Vec<Step>>());
    assert_eq!(chosen(&sketch, 1000).len(), 999);
    assert_eq!(chosen(&sketch, 600).len(), 599);
    assert!(chosen(&sketch, 1000).is_sorted_by(|one, next| one < next));
}

#[test]
fn sizes_that_overflow_are_refused() {
    let mut sketch = random(1, 8, Rules::NONE);
    for draft in &mut sketch.drafts {
        draft.size = 1 << 62;
    }
    let refused = with_planner(&sketch, |planner| choose_cuts(planner, 2));
    assert!(matches!(refused, Err(PlanError::TooLarge { buffer: 0, .. })), "{refused:?}");
}
