//! Runs of two programs in turns, side by side.

use std::collections::HashMap;
use std::io::{IsTerminal, Write, stderr};

use lastuse_c_tests::Result;
use lastuse_tool::report::Spread;

/// How often each of two programs runs. If neither is faster, the ranges of five runs each lie apart once in 126 times.
const ROUNDS: usize = 5;

/// The measurements of one run: the `key=value` lines that the programs print.
#[derive(Debug)]
pub struct Measured(HashMap<String, String>);

impl Measured {
    /// Takes the `key=value` lines of a text; later ones win.
    pub fn from_lines(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Self(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }
}

/// The runs of one program.
#[derive(Debug, Default)]
pub struct Runs(Vec<Measured>);

impl Runs {
    /// A single one.
    pub fn of(run: Measured) -> Self {
        Self(vec![run])
    }

    /// The value of a key, which is the same in all runs.
    ///
    /// # Errors
    /// When a run did not print it, or another value.
    pub fn get(&self, key: &str) -> Result<&str> {
        let values: Vec<Option<&String>> = self.0.iter().map(|run| run.0.get(key)).collect();
        match values.as_slice() {
            [Some(first), rest @ ..] if rest.iter().all(|value| *value == Some(first)) => Ok(first),
            [Some(_), ..] => Err(format!("the runs differ in {key}: {values:?}")),
            _ => Err(format!("the program did not print {key}")),
        }
    }

    /// The values of a key; `None` where a run has none.
    fn spread(&self, key: &str) -> Option<Spread> {
        let values: Option<Vec<f64>> = self.0.iter().map(|run| run.0.get(key)?.parse().ok()).collect();
        values.filter(|values| !values.is_empty()).map(|values| Spread::of(values.into_iter()))
    }
}

/// Runs two programs in turns. Which of a pair runs first alternates, since the second may find warmer caches.
///
/// # Errors
/// Those of the programs.
pub fn in_turns(first: impl Fn() -> Result<Measured>, second: impl Fn() -> Result<Measured>) -> Result<(Runs, Runs)> {
    let (mut firsts, mut seconds) = (Runs::default(), Runs::default());
    for round in 0..ROUNDS {
        show_progress(&format!("\rround {} of {ROUNDS} ", round + 1));
        if round % 2 == 0 {
            firsts.0.push(first()?);
        }
        seconds.0.push(second()?);
        if round % 2 == 1 {
            firsts.0.push(first()?);
        }
    }
    show_progress("\r\x1b[K");
    Ok((firsts, seconds))
}

fn show_progress(text: &str) {
    if stderr().is_terminal() {
        // Only shown.
        let _ = write!(stderr(), "{text}");
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

/// Prints the medians of all runs and their ratio.
///
/// # Errors
/// When a run did not print the numbers that the table needs, or was not served by the allocator that it should have
/// been.
pub fn print(ggml: &Runs, lastuse: &Runs) -> Result<()> {
    let name = lastuse.get("allocator")?;
    if ggml.get("allocator")? != "ggml" || !name.starts_with("lastuse") {
        return Err(format!("the second program was served by {name}, not by lastuse"));
    }
    print_rows(["ggml-alloc", name], &ROWS, ggml, lastuse)
}

/// Prints the medians of all runs under these names, with ratios, and the hashes of their results.
///
/// # Errors
/// When a run did not print a hash, or printed another one.
pub fn print_rows(names: [&str; 2], rows: &[Row], first: &Runs, second: &Runs) -> Result<()> {
    println!("medians of {ROUNDS} runs each, in turns\n");
    println!("{:24}  {:>18}  {:>18}  {:>7}", "", names[0], names[1], "ratio");
    for row in rows {
        println!("{}", table_row(*row, first, second));
    }
    println!("{:24}  {:>18}  {:>18}", "hash of every logit", first.get("logits_hash")?, second.get("logits_hash")?);
    println!();
    Ok(())
}

/// Formats a row. Where a run of one program is within the range of the runs of the other, no difference was measured.
fn table_row((label, key, decimals): Row, first: &Runs, second: &Runs) -> String {
    let [left, right] = [first.spread(key), second.spread(key)];
    let show = |value: Option<Spread>| value.map_or("-".to_owned(), |value| format!("{:.decimals$}", value.median));
    let (ratio, note) = match (left, right) {
        (Some(left), Some(right)) if left.median > 0.0 => {
            let is_noise = left.overlaps(&right) && !(left.is_constant() && right.is_constant());
            (format!("{:.3}", right.median / left.median), if is_noise { "no difference within noise" } else { "" })
        }
        _ => (String::new(), ""),
    };
    format!("{label:24}  {:>18}  {:>18}  {ratio:>7}  {note}", show(left), show(right)).trim_end().to_owned()
}

/// Compares the hashes of the results.
///
/// # Errors
/// When they differ.
pub fn compare_hashes(ggml: &Runs, lastuse: &Runs) -> Result<()> {
    if ggml.get("logits_hash")? == lastuse.get("logits_hash")? {
        return Ok(());
    }
    Err("the logits differ: this is a defect of lastuse, please report it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: &[&str]) -> Runs {
        Runs(values.iter().map(|value| Measured::from_lines(&format!("speed={value}\nhash=a"))).collect())
    }

    #[test]
    fn differences_within_noise_are_called_so() {
        let row = |first: &[&str], second: &[&str]| table_row(("speed", "speed", 1), &runs(first), &runs(second));
        let of = |ends: &str| format!("{:24}  {ends}", "speed");
        assert_eq!(
            row(&["10", "12", "11"], &["10.5", "9", "10"]),
            of("              11.0                10.0    0.909  no difference within noise")
        );
        assert_eq!(row(&["10", "12", "11"], &["8", "9", "8.5"]), of("              11.0                 8.5    0.773"));
        assert_eq!(row(&["10", "10"], &["10", "10"]), of("              10.0                10.0    1.000"));
        assert_eq!(row(&["10", "x"], &["10", "10"]), of("                 -                10.0"));
    }

    #[test]
    fn runs_agree_or_their_difference_is_an_error() {
        assert_eq!(runs(&["1", "2"]).get("hash"), Ok("a"));
        assert!(runs(&["1", "2"]).get("speed").is_err_and(|why| why.starts_with("the runs differ in speed")));
        assert!(runs(&["1"]).get("other").is_err());
    }

    #[test]
    fn programs_run_in_turns() {
        let order = std::cell::RefCell::new(String::new());
        let note = |letter: char| {
            order.borrow_mut().push(letter);
            Ok(Measured::from_lines(""))
        };
        in_turns(|| note('a'), || note('b')).expect("both run");
        assert_eq!(order.into_inner(), "abbaabbaab");
    }
}
