//! `docs/recomputation.md` and its curve have the results of the pass.

use std::fs;
use std::path::PathBuf;

use lastuse::graph::recompute::Needs;
use lastuse::placement::Bytes;

use super::{Training, every_kth, picture};

/// The budgets of the curve, in hundredths of the plan for the given graph; 0 is the smallest graph that is found.
const CURVE: [Bytes; 16] = [95, 90, 80, 70, 60, 50, 45, 40, 35, 30, 25, 20, 15, 12, 10, 0];

/// Those in the tables.
const TABLE: [Bytes; 8] = [90, 70, 50, 40, 30, 20, 15, 0];

fn docs() -> PathBuf {
    lastuse_c_tests::folder().with_file_name("docs")
}

fn needs(training: &Training, percent: Bytes) -> Needs {
    training.recomputed(training.given.bytes * percent / 100)
}

/// Formats bytes as MiB with one decimal.
fn mib(bytes: Bytes) -> String {
    let tenths = (bytes * 10 + (1 << 19)) >> 20;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Returns the change in percent that a ratio means.
fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

#[test]
fn measured_points_in_the_documentation_are_those_of_the_pass() {
    let page = fs::read_to_string(docs().join("recomputation.md")).expect("the page is there");
    for training in Training::all() {
        let row = |budget: &str, needs: Needs| {
            let [bytes, work] = [training.bytes_ratio(needs), training.work_ratio(needs)].map(percent);
            format!("| {budget} | {} | {} | {bytes:+.1} % | {work:+.2} % |\n", needs.bytes, mib(needs.bytes))
        };
        let ggml_alloc = training.ggml_alloc();
        let mut rows = format!("| ggml-alloc | {ggml_alloc} | {} | | |\n", mib(ggml_alloc));
        rows.push_str(&row("none", training.given));
        for percent in TABLE {
            let budget = if percent == 0 { "`min`".to_owned() } else { format!("`{percent}%`") };
            rows.push_str(&row(&budget, needs(&training, percent)));
        }
        assert!(page.contains(&rows), "docs/recomputation.md lacks these rows of {}:\n{rows}", training.name);
    }
}

#[test]
fn curve_in_the_documentation_is_what_the_pass_finds() {
    let training = Training::new("train-24-512", 24);
    let found: Vec<Needs> = CURVE.iter().map(|&percent| needs(&training, percent)).collect();
    let competitor = every_kth::lower_envelope(&every_kth::points(&training));
    let drawn = picture::curve(&training, &found, &competitor);
    let file = docs().join("recomputation.svg");
    if std::env::var_os("LASTUSE_UPDATE").is_some() {
        fs::write(&file, &drawn).expect("the repository can be written to");
    }
    let committed = fs::read_to_string(&file).expect("docs/recomputation.svg is there");
    assert!(committed == drawn, "docs/recomputation.svg differs from the results; LASTUSE_UPDATE=1 updates it");
}
