//! Programs that train by `ggml_opt`, under `lastuse run`.

use lastuse_c_tests::Linked;
use lastuse_vendor::{Package, target_folder};
use serde_json::Value;

use crate::support;
use crate::support::tool::{command, stderr, stdout};

/// Forward results that are computed again change neither a loss nor a weight, and the bytes are those that `lastuse plan` promises
/// for the captured graph.
#[test]
fn forward_results_are_computed_again_with_the_same_losses_and_weights() {
    let ggml = support::ggml(Package::LlamaCpp);
    let program = support::build("trained", "tests/tool/trained.c", &ggml, Linked::SharedGgml);
    let path = program.path().to_str().expect("a path in UTF-8");
    let run = |options: &[&str]| {
        let output = command(&[&["run"], options, &[path]].concat()).output().expect("the tool starts");
        assert_eq!(output.status.code(), Some(0), "{options:?}: {}", stderr(&output));
        let text = stdout(&output);
        let (results, bytes) = text.trim_end().split_once("\nbytes=").expect("two lines");
        (results.to_owned(), bytes.parse::<u64>().expect("a number"))
    };
    let folder = target_folder().join("trained-capture");
    let _ = std::fs::remove_dir_all(&folder);
    let folder = folder.to_str().expect("a path in UTF-8");
    let (results, given) = run(&["--off"]);
    assert_eq!(run(&["--capture", folder]).0, results);
    let half = (given / 2).to_string();
    let output = command(&["compare", "--runs", "1", "--json", "--recompute", &half, path]).output();
    let compared: Value = serde_json::from_str(stdout(&output.expect("the tool starts"))).expect("JSON");
    let bytes =
        |allocator: &str| compared[allocator]["buffer_bytes"][0].as_u64().unwrap_or_else(|| panic!("{compared}"));
    assert!(bytes("ggml_alloc") == given && bytes("lastuse") <= given / 2, "{compared}");
    for part in [60, 30] {
        let budget = (given * part / 100).to_string();
        let output = command(&["plan", "--recompute", &budget, folder]).output().expect("the tool starts");
        let table = stdout(&output);
        let promised = table.lines().last().and_then(|row| row.split_whitespace().nth(4)?.parse::<u64>().ok());
        let promised = promised.unwrap_or_else(|| panic!("a table with one graph: {table}{}", stderr(&output)));
        assert!(promised * 100 <= given * part, "{promised} of {given}");
        for option in ["--recompute", "--budget"] {
            assert_eq!(run(&[option, &budget]), (results.clone(), promised), "{option} {budget}");
        }
    }
}
