//! Numbers that are not hotness counts.

use super::super::{HotnessDefect, Inactive, LayerNeurons, MAX_NEURONS, UnusableLayer, check_hotness, divide};
use super::{cost, granule};

#[test]
fn invalid_numbers_are_refused_by_neuron() {
    for (value, text) in [(f64::NAN, "NaN"), (f64::INFINITY, "inf"), (f64::NEG_INFINITY, "-inf"), (-1.5, "-1.5")] {
        let defect = check_hotness(&[1.0, value, value]).expect_err("invalid");
        let expected = format!("the hotness of neuron 1 is {text}; a finite number, 0 or more, is expected");
        assert_eq!(defect.to_string(), expected);
    }
}

#[test]
fn layers_without_neurons_or_with_endless_sums_are_refused() {
    assert_eq!(check_hotness(&[]), Err(HotnessDefect::Empty));
    assert_eq!(check_hotness(&[f64::MAX, f64::MAX]), Err(HotnessDefect::TooLarge));
    assert_eq!(check_hotness(&[0.0, -0.0, 2.5]), Ok(2.5));
    assert_eq!(
        HotnessDefect::TooMany(1 << 31).to_string(),
        format!("there are 2147483648 neurons; a layer has at most {MAX_NEURONS}")
    );
}

#[test]
fn layer_is_named() {
    let (valid, invalid) = ([1.0; 4], [1.0, f64::NAN]);
    let layers = |second, cost| [LayerNeurons { hotness: &valid, cost }, LayerNeurons { hotness: second, cost }];
    let refused = divide(&layers(&invalid, cost(1, 0)), 9, granule(32), Inactive::Fill).expect_err("invalid");
    assert_eq!(refused.layer, 1);
    assert!(refused.to_string().starts_with("layer 1: the hotness of neuron 1 is NaN"), "{refused}");
    let refused = divide(&layers(&valid, cost(u64::MAX / 2, 0)), 9, granule(32), Inactive::Fill);
    assert_eq!(refused, Err(UnusableLayer { layer: 0, defect: None }));
}
