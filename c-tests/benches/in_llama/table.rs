//! The measurements as a table in Markdown, a line for each model.

use lastuse_c_tests::aligned_table;

use crate::measure::{LAYOUTS, Measured, OTHER_USES, median};

const HEADINGS: [&str; 12] = [
    "model",
    "layers",
    "nodes",
    "reserve_n_size",
    "reserve",
    "first alloc_graph",
    "again",
    "rebuilt",
    "process: size",
    "reserve",
    "new + reserve",
    "alloc_graph",
];

/// Those of the columns in the middle.
const WARM: [&str; 5] = ["size", "reserve", "alloc-first", "alloc-again", "alloc-rebuilt"];

/// Those of the last columns.
const FIRST: [&str; 4] = ["size", "reserve", "new and reserve", "alloc"];

fn legend() -> String {
    format!(
        "\
Ratios of times, lastuse / ggml-alloc (lower is better), medians. Warm, in one process, in turn, over {LAYOUTS} layouts of the address
space (the largest in parentheses): reserve_n_size and reserve of a graph that is new to the allocator, with the buffer
allocated; the first alloc_graph after that; alloc_graph of the same graph again; and of the graphs that llama.cpp builds for the
next tokens. Right of \"process\": the first calls in a process, which each process makes with one allocator only; \"new\" is
ggml_gallocr_new_n, where a preloaded lastuse finds out which ggml it serves."
    )
}

/// Returns the table with its legend.
pub fn table(measured: &[(&str, &str, Measured)]) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned).into()];
    rows.extend(measured.iter().map(|(model, layers, measured)| row(model, layers, measured)));
    format!("{}\n{}\n\n{}\n{OTHERS}", aligned_table(&rows, 1), legend(), table_of_others(measured))
}

const OTHERS: &str = "\
alloc_graph of the graphs that llama.cpp builds after the prompt: for batches of 1 to n tokens in turns (n shapes), and for
tokens on two devices in a pipeline, where its scheduler reads four copies of each input in turns.";

fn table_of_others(measured: &[(&str, &str, Measured)]) -> String {
    let headings = ["model", "layers"].into_iter().chain(OTHER_USES.map(|(name, _)| name));
    let mut rows = vec![headings.map(str::to_owned).collect::<Vec<String>>()];
    rows.extend(measured.iter().map(|(model, layers, measured)| {
        let cells = OTHER_USES.iter().map(|(name, _)| median_and_largest(measured.others.get(name)));
        [(*model).to_owned(), (*layers).to_owned()].into_iter().chain(cells).collect()
    }));
    aligned_table(&rows, 1)
}

/// Returns the median of ratios, with the largest in parentheses.
fn median_and_largest(ratios: Option<&Vec<f64>>) -> String {
    let ratios = ratios.cloned().unwrap_or_default();
    let largest = ratios.iter().copied().fold(f64::NAN, f64::max);
    format!("{:.2} ({largest:.2})", median(ratios))
}

fn row(model: &str, layers: &str, measured: &Measured) -> Vec<String> {
    let warm = WARM.iter().map(|key| median_and_largest(measured.ratios.get(*key)));
    let first = FIRST.iter().map(|key| format!("{:.2}", measured.first.get(key).copied().unwrap_or(f64::NAN)));
    let names = [model.to_owned(), layers.to_owned(), measured.nodes.to_string()];
    names.into_iter().chain(warm).chain(first).collect()
}
