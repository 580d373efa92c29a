//! Bytes of neurons: true ones, and PowerInfer's estimate.

use super::super::{
    DEFAULT_GRANULE, Inactive, LayerCost, LayerNeurons, MatrixRow, PowerInferShape, divide, powerinfer_capacity,
};
use super::granule;

fn f16(neurons: u64, gated: bool) -> PowerInferShape {
    PowerInferShape { neurons, block_bytes: 2, block_elements: 1, gated }
}

/// Rows of `embd` elements of 16 bits in three matrices.
fn gated_f16(embd: u64) -> LayerCost {
    LayerCost::of_matrices(&[MatrixRow { row: 2 * embd, padding: 0 }; 3]).expect("small")
}

/// Neurons that a budget of bytes gives in groups of 256; hotness falls with the id.
fn neurons(budget: u64, cost: LayerCost, layers: usize, ff: u32, inactive: Inactive) -> (u64, u64) {
    let hotness: Vec<f64> = (1..=ff).rev().map(f64::from).collect();
    let layers = vec![LayerNeurons { hotness: &hotness, cost }; layers];
    let division = divide(&layers, budget, granule(DEFAULT_GRANULE), inactive).expect("valid");
    (division.neurons(), division.bytes())
}

/// The example that PowerInfer documents: 40 layers, n_embd 5120, n_ff 13824, f16.
#[test]
fn documented_example_has_the_published_numbers() {
    const BUDGET: u64 = 13_357_166_592;
    let capacity = powerinfer_capacity(BUDGET, &f16(13_824, true)).expect("small");
    assert_eq!(capacity, 429_432);
    let (count, _) = neurons(capacity, LayerCost::COUNT, 40, 13_824, Inactive::Skip);
    assert_eq!(count, 429_312);
    let row_bytes = 3 * 5120 * 2;
    assert_eq!(count * row_bytes * 2, 25_155 * (1 << 20), "12,577.50 MiB of rows");
    let cost = gated_f16(5120);
    assert_eq!(cost.neuron.get(), row_bytes + 4, "and the entry in the bucket");
    let (count, bytes) = neurons(BUDGET, cost, 40, 13_824, Inactive::Fill);
    assert_eq!((count, bytes), (434_688, 13_355_354_112));
    assert!(bytes <= BUDGET && bytes + 256 * cost.neuron.get() > BUDGET, "no further group fits");
}

/// The shape of MiniCPM-1B: n_ff 3840 is less than 2.67 times n_embd 1536.
#[test]
fn estimate_is_too_small_for_narrow_layers_and_true_bytes_are_not() {
    const BUDGET: u64 = 1_000_000_000;
    let capacity = powerinfer_capacity(BUDGET, &f16(3840, true)).expect("small");
    let (count, _) = neurons(capacity, LayerCost::COUNT, 52, 3840, Inactive::Fill);
    let cost = gated_f16(1536);
    let taken = count * cost.neuron.get();
    assert!(taken > BUDGET * 106 / 100 && taken < BUDGET * 107 / 100, "{taken}");
    let (_, bytes) = neurons(BUDGET, cost, 52, 3840, Inactive::Fill);
    assert!(bytes <= BUDGET && bytes + 256 * cost.neuron.get() > BUDGET, "{bytes}");
}

/// Llama 2 70B: n_embd 8192, n_ff 28672.
#[test]
fn estimate_leaves_a_quarter_unused_for_wide_layers_and_true_bytes_do_not() {
    const BUDGET: u64 = 20_000_000_000;
    let capacity = powerinfer_capacity(BUDGET, &f16(28_672, true)).expect("small");
    let (count, _) = neurons(capacity, LayerCost::COUNT, 80, 28_672, Inactive::Fill);
    let cost = gated_f16(8192);
    assert!(count * cost.neuron.get() < BUDGET * 77 / 100);
    let (_, bytes) = neurons(BUDGET, cost, 80, 28_672, Inactive::Fill);
    assert!(bytes > BUDGET * 999 / 1000 && bytes <= BUDGET);
}

#[test]
fn layers_that_the_granule_does_not_divide_have_a_smaller_last_group() {
    // Llama 2 7B has n_ff 11008 = 43 * 256; with 11000 the last group has 248.
    let cost = gated_f16(4096);
    let all = 11_000 * cost.neuron.get();
    assert_eq!(neurons(all, cost, 1, 11_000, Inactive::Fill), (11_000, all));
    assert_eq!(neurons(all - 1, cost, 1, 11_000, Inactive::Fill).0, 42 * 256);
}

#[test]
fn capacity_is_that_of_the_examples() {
    assert_eq!(powerinfer_capacity(1_500_000, &f16(1024, true)), Some(648));
    assert_eq!(powerinfer_capacity(5_500_000, &f16(1024, true)), Some(2384));
    assert_eq!(powerinfer_capacity(1_500_000, &f16(1024, false)), Some(1_500_000 / 4096 * 4));
    let q4_0 = PowerInferShape { neurons: 11_008, block_bytes: 18, block_elements: 32, gated: true };
    // 11008 elements take 6192 bytes, 4.5 times that is 27864.
    assert_eq!(powerinfer_capacity(1 << 30, &q4_0), Some((1 << 30) / 27_864 * 4));
}

#[test]
fn capacity_of_impossible_shapes_is_none() {
    let shape = |neurons, block_elements| PowerInferShape { neurons, block_bytes: 2, block_elements, gated: true };
    assert_eq!(powerinfer_capacity(1, &shape(0, 1)), None);
    assert_eq!(powerinfer_capacity(1, &shape(1, 0)), None);
    assert_eq!(powerinfer_capacity(1, &shape(u64::MAX, 1)), None);
    assert_eq!(powerinfer_capacity(u64::MAX, &shape(1, 9)), None, "four times the budget overflows");
    assert_eq!(powerinfer_capacity(0, &shape(1024, 1)), Some(0));
}

#[test]
fn bytes_that_overflow_have_no_cost() {
    let matrix = MatrixRow { row: u64::MAX, padding: 0 };
    assert_eq!(LayerCost::of_matrices(&[matrix]), None);
    let padded = MatrixRow { row: 1, padding: u64::MAX };
    assert_eq!(LayerCost::of_matrices(&[padded, padded]), None);
    let one = LayerCost::of_matrices(&[padded]).expect("it fits");
    assert_eq!([0, 1].map(|count| one.bytes(count)), [Some(0), None]);
    assert_eq!(LayerCost::COUNT.bytes(u64::MAX), Some(u64::MAX));
}
