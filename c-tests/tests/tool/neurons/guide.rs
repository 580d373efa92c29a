//! `docs/internals/neurons.md` has the numbers of published shapes, and every rule.

use lastuse_neurons::division::{
    Granule, Inactive, LayerCost, LayerNeurons, MatrixRow, PowerInferShape, divide, powerinfer_capacity,
};
use lastuse_neurons::gpuidx::IndexRule;

/// The guide has a table of shapes.
const PAGE: &str = include_str!("../../../../docs/internals/neurons.md");

/// A row of the table: the name, n_embd, n_ff, layers, whether there is a gate, and the budget.
fn guide_row((name, embd, ff, layers, gated, budget): (&str, u64, u32, usize, bool, u64)) -> String {
    let shape = PowerInferShape { neurons: ff.into(), block_bytes: 2, block_elements: 1, gated };
    let matrices = vec![MatrixRow { row: 2 * embd, padding: 0 }; if gated { 3 } else { 2 }];
    let cost = LayerCost::of_matrices(&matrices).expect("small");
    let hotness: Vec<f64> = (1..=ff).rev().map(f64::from).collect();
    let neurons = |budget, cost| {
        let layers = vec![LayerNeurons { hotness: &hotness, cost }; layers];
        divide(&layers, budget, Granule::default(), Inactive::Skip).expect("valid hotness").neurons()
    };
    let capacity = powerinfer_capacity(budget, &shape).expect("small");
    let (theirs, ours) = (neurons(capacity, LayerCost::COUNT), neurons(budget, cost));
    let [their_bytes, our_bytes] = [theirs, ours].map(|count| count * cost.neuron.get());
    // Tenths of a percent, rounded.
    let part = |bytes: u64| (2000 * bytes + budget) / (2 * budget);
    let percent = |bytes: u64| format!("{}.{} %", part(bytes) / 10, part(bytes) % 10);
    format!(
        "| {name} | {embd} x {ff}, {layers} | {budget} | {theirs} | {their_bytes} | {} | {ours} | {} |\n",
        percent(their_bytes),
        percent(our_bytes)
    )
}

#[test]
fn guide_has_the_numbers_of_published_shapes() {
    let shapes = [
        ("Llama 2 13B", 5120, 13_824, 40, true, 13_357_166_592),
        ("Llama 2 70B", 8192, 28_672, 80, true, 20_000_000_000),
        ("Bamboo 7B", 4096, 14_336, 32, true, 5_000_000_000),
        ("MiniCPM 1B", 1536, 3840, 52, true, 1_000_000_000),
        ("Falcon 40B, no gate", 8192, 32_768, 60, false, 20_000_000_000),
    ];
    let rows: String = shapes.into_iter().map(guide_row).collect();
    assert!(PAGE.contains(&rows), "docs/internals/neurons.md should have\n{rows}");
}

#[test]
fn guide_names_every_rule() {
    for rule in IndexRule::ALL {
        assert!(PAGE.contains(&format!("\n| `{rule}` | ")), "{rule}");
    }
}
