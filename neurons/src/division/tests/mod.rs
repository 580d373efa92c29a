//! Tests of divisions: small ones by hand, random ones compared with an exact solver, and the published example.

mod budgets;
mod choices;
mod exact;
mod invalid;

use std::num::NonZeroU64;

use super::{Granule, Inactive, LayerCost, LayerNeurons, NeuronDivision, divide};

fn granule(neurons: u32) -> Granule {
    Granule::new(neurons).expect("a granule")
}

fn cost(neuron: u64, layer: u64) -> LayerCost {
    LayerCost { neuron: NonZeroU64::new(neuron).expect("not 0"), layer }
}

/// Divides layers that count neurons, in groups of 32.
fn divide_counted(hotness: &[Vec<f64>], neurons: u64, inactive: Inactive) -> NeuronDivision {
    let layers: Vec<LayerNeurons<'_>> =
        hotness.iter().map(|hotness| LayerNeurons { hotness, cost: LayerCost::COUNT }).collect();
    divide(&layers, neurons, granule(32), inactive).expect("valid hotness")
}

fn counts(division: &NeuronDivision) -> Vec<usize> {
    division.layers.iter().map(|layer| layer.bucket.len()).collect()
}
