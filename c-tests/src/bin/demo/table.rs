//! Two runs side by side.

use std::collections::HashMap;

use lastuse_c_tests::Result;

/// What one run has measured: the `key=value` lines that the programs print.
#[derive(Debug)]
pub struct Measured(HashMap<String, String>);

impl Measured {
    /// Takes the `key=value` lines of a text; later ones win.
    pub fn from_lines(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Self(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    /// The value of a key.
    ///
    /// # Errors
    /// When the run did not print it.
    pub fn get(&self, key: &str) -> Result<&str> {
        self.0.get(key).map(String::as_str).ok_or_else(|| format!("the program did not print {key}"))
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.0.get(key)?.parse().ok()
    }
}

/// A row of a table: its label, the key, and the number of decimals.
pub type Row = (&'static str, &'static str, usize);

/// Rows of the table that compares allocators.
const ROWS: [Row; 6] = [
    ("compute buffer, bytes", "compute_buffer_bytes", 0),
    ("lower bound, bytes", "lower_bound_bytes", 0),
    ("time to plan, us", "plan_us", 1),
    ("time of alloc_graph, us", "alloc_graph_us", 1),
    ("prompt, tokens/s", "prompt_tokens_per_s", 1),
    ("decode, tokens/s", "decode_tokens_per_s", 1),
];

/// Prints both runs and their ratio.
///
/// # Errors
/// When a run did not print what the table needs, or was not served by the allocator that it should have been.
pub fn print(ggml: &Measured, lastuse: &Measured) -> Result<()> {
    let name = lastuse.get("allocator")?;
    if ggml.get("allocator")? != "ggml" || !name.starts_with("lastuse") {
        return Err(format!("the second run was served by {name}, not by lastuse"));
    }
    print_rows(["ggml-alloc", name], &ROWS, ggml, lastuse)
}

/// Prints both runs under these names, with ratios, and the hashes of their results.
///
/// # Errors
/// When a run did not print a hash.
pub fn print_rows(names: [&str; 2], rows: &[Row], first: &Measured, second: &Measured) -> Result<()> {
    println!("\n{:24}  {:>18}  {:>18}  {:>7}", "", names[0], names[1], "ratio");
    for &(label, key, decimals) in rows {
        let [left, right] = [first.number(key), second.number(key)];
        let show = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"));
        let ratio = match (left, right) {
            (Some(left), Some(right)) if left > 0.0 => format!("{:.3}", right / left),
            _ => String::new(),
        };
        println!("{label:24}  {:>18}  {:>18}  {ratio:>7}", show(left), show(right));
    }
    println!("{:24}  {:>18}  {:>18}", "hash of every logit", first.get("logits_hash")?, second.get("logits_hash")?);
    println!();
    Ok(())
}

/// Compares the hashes of the results.
///
/// # Errors
/// When they are not.
pub fn compare_hashes(ggml: &Measured, lastuse: &Measured) -> Result<()> {
    if ggml.get("logits_hash")? == lastuse.get("logits_hash")? {
        return Ok(());
    }
    Err("the logits differ: this is a defect of lastuse, please report it".to_owned())
}
