//! The live bytes of the model.

use crate::graph::live_bytes::{Model, Run, peaks_of};
use crate::graph::tests::sketch::{BUFFER, List, Sketch};
use crate::graph::{InPlace, Rules};
use crate::placement::Step;
use crate::testing::Random;

use super::{RULES, bounds, pairs, random_graph, random_order, random_retaining_graph};

fn model(sketch: &Sketch, rules: Rules) -> Model {
    Model::new(&sketch.graph(), &sketch.buffers_with(rules), &sketch.live_ranges(rules))
}

#[test]
fn peaks_match_the_live_ranges_in_every_order() {
    assert!(orders_with_peaks_of_live_ranges(random_graph) > 2000, "poor graphs");
}

/// The model does not know how long sources of fused nodes are kept, which no node has where nothing is in place.
#[test]
fn peaks_match_the_live_ranges_with_retained_tensors() {
    let graph = |random: &mut Random, most: u32| {
        let mut sketch = random_retaining_graph(random, most);
        let nodes = sketch.drafts.iter_mut().filter(|draft| matches!(draft.tensor.in_place, InPlace::Listed(_)));
        nodes.for_each(|draft| draft.tensor.in_place = InPlace::Never);
        sketch
    };
    assert!(orders_with_peaks_of_live_ranges(graph) > 2000, "poor graphs");
}

/// Asserts that the peaks match in random orders of random graphs, and returns how many orders are not the given one.
fn orders_with_peaks_of_live_ranges(graph: fn(&mut Random, u32) -> Sketch) -> u32 {
    let mut random = Random::new(21);
    let mut orders = 0;
    for _ in 0..1500 {
        let mut sketch = graph(&mut random, 40);
        sketch.buffers = vec![BUFFER];
        sketch.drafts.iter_mut().for_each(|draft| draft.buffer = 0);
        let pairs = pairs(&sketch);
        for rules in [RULES, Rules::GGML, Rules { inactive: true, ..RULES }] {
            if rules.inactive {
                // The model leaves out what lives in the first step only.
                let leafs = sketch.drafts.iter_mut().filter(|draft| draft.list == List::Leafs);
                leafs.for_each(|leaf| leaf.tensor.external = true);
            }
            let model = model(&sketch, rules);
            for _ in 0..4 {
                let order = random_order(&mut random, &pairs);
                let peaks = peaks_of(&mut Run::new(&model), &order);
                assert_eq!(peaks, bounds(&sketch, &order, rules), "{rules}: {order:?}");
                orders += u32::from(!order.is_sorted());
            }
        }
    }
    orders
}

#[test]
fn steps_can_be_undone() {
    let mut random = Random::new(22);
    for _ in 0..300 {
        let sketch = random_graph(&mut random, 40);
        let model = model(&sketch, RULES);
        let order = random_order(&mut random, &pairs(&sketch));
        let mut run = Run::new(&model);
        let mut live = Vec::new();
        for &step in &order {
            live.push(run.live().to_vec());
            let (before, growth) = (i64::try_from(run.total()), run.growth(step));
            run.forward(step);
            assert_eq!(i64::try_from(run.total()).ok(), before.ok().map(|before| before + growth));
        }
        for &step in order.iter().rev() {
            run.backward(step);
            assert_eq!(Some(run.live()), live.pop().as_deref());
        }
    }
}

#[test]
fn step_fits_while_no_cap_is_exceeded() {
    let mut random = Random::new(23);
    for _ in 0..300 {
        let sketch = random_graph(&mut random, 30);
        let model = model(&sketch, RULES);
        let order: Vec<Step> = random_order(&mut random, &pairs(&sketch));
        let mut run = Run::new(&model);
        for &step in &order {
            let peaks = peaks_of(&mut run.clone(), &[step]);
            assert!(run.fits(step, &peaks));
            for buffer in 0..peaks.len() {
                let mut less = peaks.clone();
                less[buffer] = less[buffer].saturating_sub(1);
                assert!(peaks[buffer] == run.live()[buffer] || !run.fits(step, &less));
            }
            run.forward(step);
        }
    }
}
