//! Random divisions, compared with an exact solver that shares no code with them.

use crate::testing::Random;

use super::super::{Inactive, LayerCost, LayerNeurons, NeuronDivision, divide};
use super::{cost, granule};

/// A layer: hotness, bytes of a neuron, bytes of the layer.
struct Layer {
    hotness: Vec<f64>,
    neuron: u64,
    once: u64,
}

/// Returns the bytes and the hotness of each choice that a layer has: the hottest 0, 32, 64, ... neurons, or all.
fn choices(layer: &Layer) -> Vec<(u64, f64)> {
    let mut sorted = layer.hotness.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let counts = (0..sorted.len()).step_by(32).chain([sorted.len()]);
    let choice = |count: usize| {
        let once = if count > 0 { layer.once } else { 0 };
        (count as u64 * layer.neuron + once, sorted[..count].iter().sum())
    };
    counts.map(choice).collect()
}

/// Returns the most hotness that `budget` bytes can hold, by dynamic programming over bytes.
fn optimum(layers: &[Layer], budget: u64) -> f64 {
    let size = usize::try_from(budget).expect("small") + 1;
    let mut best = vec![0.0f64; size];
    for layer in layers {
        let choices = choices(layer);
        let with_layer = |used: usize| {
            let fits = choices.iter().filter(|(bytes, _)| *bytes <= used as u64);
            let hotness = fits.map(|(bytes, hotness)| best[used - usize::try_from(*bytes).expect("small")] + hotness);
            hotness.fold(0.0, f64::max)
        };
        best = (0..size).map(with_layer).collect();
    }
    best[size - 1]
}

fn chosen(layers: &[Layer], budget: u64, inactive: Inactive) -> NeuronDivision {
    let of_layers: Vec<LayerNeurons<'_>> = layers
        .iter()
        .map(|layer| LayerNeurons { hotness: &layer.hotness, cost: cost(layer.neuron, layer.once) })
        .collect();
    divide(&of_layers, budget, granule(32), inactive).expect("valid hotness")
}

/// Expects that the division keeps its promises, whatever it chose.
fn check(layers: &[Layer], budget: u64, division: &NeuronDivision) {
    for (layer, chosen) in layers.iter().zip(&division.layers) {
        let count = chosen.bucket.len();
        assert!(count.is_multiple_of(32) || count == layer.hotness.len(), "{count} of {}", layer.hotness.len());
        let once = if count > 0 { layer.once } else { 0 };
        assert_eq!(chosen.bytes, count as u64 * layer.neuron + once);
        let covered: f64 = chosen.bucket.iter().map(|&id| layer.hotness[id as usize]).sum();
        assert_eq!((chosen.covered, chosen.total), (covered, layer.hotness.iter().sum()));
        assert!(chosen.bucket.is_sorted_by(|a, b| a < b));
    }
    assert!(division.bytes() <= budget);
}

/// Whole numbers, so that sums are exact in any order. Some layers were never active, some neurons are equal.
fn random_hotness(random: &mut Random, neurons: u32) -> Vec<f64> {
    let limit = [1, 2, 5, 1000][random.below(4) as usize];
    (0..neurons).map(|_| f64::from(random.below(limit))).collect()
}

#[test]
fn equal_bytes_give_the_optimum_of_the_integer_program() {
    let mut random = Random::new(16);
    let (mut partial, mut full) = (0, 0);
    for _ in 0..3000 {
        let neuron = u64::from(1 + random.below(3));
        let count = 1 + random.below(5);
        let layers: Vec<Layer> = (0..count)
            .map(|_| {
                let neurons = 32 * (1 + random.below(4));
                Layer { hotness: random_hotness(&mut random, neurons), neuron, once: 0 }
            })
            .collect();
        let all: u64 = layers.iter().map(|layer| layer.hotness.len() as u64 * neuron).sum();
        let budget = u64::from(random.below(u32::try_from(all).expect("small") + 40));
        let best = optimum(&layers, budget);
        for inactive in [Inactive::Fill, Inactive::Skip] {
            let division = chosen(&layers, budget, inactive);
            check(&layers, budget, &division);
            assert_eq!(division.covered(), best);
            assert!(division.bound >= best);
        }
        let filled = chosen(&layers, budget, Inactive::Fill);
        assert!(filled.bytes() == all || filled.bytes() + 32 * neuron > budget, "no whole group fits the rest");
        if best < layers.iter().flat_map(|layer| &layer.hotness).sum() { partial += 1 } else { full += 1 }
    }
    assert!(partial > 1000 && full > 100, "{partial}, {full}");
}

#[test]
fn unequal_bytes_are_within_the_bound() {
    let mut random = Random::new(17);
    let (mut optimal, mut others) = (0, 0);
    for _ in 0..3000 {
        let count = 1 + random.below(5);
        let has_once = random.chance(50);
        let layers: Vec<Layer> = (0..count)
            .map(|_| {
                let neurons = 1 + random.below(120);
                let once = if has_once { u64::from(random.below(60)) } else { 0 };
                Layer { hotness: random_hotness(&mut random, neurons), neuron: u64::from(1 + random.below(4)), once }
            })
            .collect();
        let all: u64 = layers.iter().map(|layer| layer.hotness.len() as u64 * layer.neuron + layer.once).sum();
        let budget = u64::from(random.below(u32::try_from(all).expect("small") + 40));
        let best = optimum(&layers, budget);
        let division = chosen(&layers, budget, Inactive::Fill);
        check(&layers, budget, &division);
        let (covered, rounding) = (division.covered(), 1e-9 * best);
        assert!(covered <= best && best <= division.bound + rounding, "{covered} <= {best} <= {}", division.bound);
        if !has_once {
            let largest = layers
                .iter()
                .flat_map(|layer| choices(layer).windows(2).map(|pair| pair[1].1 - pair[0].1).collect::<Vec<_>>());
            let largest = largest.fold(0.0, f64::max);
            assert!(division.bound - covered <= largest + rounding, "less than one group is lost");
        }
        if covered == best { optimal += 1 } else { others += 1 }
    }
    assert!(optimal > 2000 && others > 50, "{optimal}, {others}");
}

#[test]
fn budgets_without_room_or_limit_are_kept() {
    let mut random = Random::new(18);
    let layers: Vec<Layer> =
        (0..4).map(|_| Layer { hotness: random_hotness(&mut random, 70), neuron: 9, once: 5 }).collect();
    assert_eq!(chosen(&layers, 0, Inactive::Fill).neurons(), 0);
    assert_eq!(chosen(&layers, u64::MAX, Inactive::Fill).neurons(), 280);
    let counted = LayerNeurons { hotness: &layers[0].hotness, cost: LayerCost::COUNT };
    assert_eq!(divide(&[counted], u64::MAX, granule(32), Inactive::Fill).map(|division| division.neurons()), Ok(70));
    assert_eq!(divide(&[], u64::MAX, granule(32), Inactive::Fill).map(|division| division.neurons()), Ok(0));
}
