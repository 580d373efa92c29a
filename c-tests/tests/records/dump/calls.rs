//! Programs that call `lastuse_graph_dump`.

use std::fs;

use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;

use super::folder::{Dumped, empty_folder, read_dumps};
use crate::support;

/// The types of NumPy that the elements of ggml's types are written with.
const TYPES: [(&str, &str); 11] = [
    ("f32", "<f4"),
    ("f16", "<f2"),
    ("bf16", "<f4"),
    ("i8", "|i1"),
    ("i16", "<i2"),
    ("i32", "<i4"),
    ("i64", "<i8"),
    ("f64", "<f8"),
    ("q8_0", "<f4"),
    ("q4_0", "<f4"),
    ("q5_1", "<f4"),
];

/// Runs all cases, and compares their dumps with the expected ones.
fn all_cases_pass(program: &Program, label: &str) {
    let mut compared = 0;
    for case in support::listed_cases(program, &[]) {
        let folder = empty_folder(&format!("{case}{label}"));
        let outcome = support::expect(program.run_in(&folder, &[&case], &[]));
        assert_eq!(outcome.code, Some(0), "{case}: {}", outcome.describe());
        let Some(dumped) = outcome.stdout.lines().find_map(|line| line.strip_prefix("dumped ")) else { continue };
        let dumps = read_dumps(&folder.join(dumped));
        let before = compared;
        for dumped in dumps.iter().filter(|dumped| dumped.array.is_some()) {
            let file = format!("{}-{}.bin", dumped.run(), dumped.name());
            let expected = fs::read(folder.join("expected").join(&file));
            // A later run of an unchanged graph has the values of the first.
            let expected = expected.unwrap_or_else(|_| {
                let first = folder.join(format!("expected/1-{}.bin", dumped.name()));
                fs::read(first).unwrap_or_else(|error| panic!("{case}: {file}: {error}"))
            });
            assert!(dumped.bytes() == expected, "{case}: {}", dumped.line);
            compared += 1;
        }
        assert!(compared > before, "{case}: nothing is dumped");
    }
    assert!(compared > TYPES.len(), "{compared} arrays are compared");
}

#[test]
fn on_ggml_0_26() {
    let program = support::build_with_both("dump", "tests/records/dump/calls.c");
    all_cases_pass(&program, "");
}

#[test]
fn on_ggml_0_9_5() {
    let (ggml, lastuse) = (support::ggml(Package::WhisperCpp), support::release());
    all_cases_pass(
        &support::build("dump-0.9.5", "tests/records/dump/calls.c", &ggml, Linked::LastuseArchive(&lastuse)),
        "-0.9.5",
    );
}

fn dumps_of(case: &str) -> Vec<Dumped> {
    let folder = empty_folder(&format!("{case}-again"));
    let outcome =
        support::expect(support::build_with_both("dump", "tests/records/dump/calls.c").run_in(&folder, &[case], &[]));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
    read_dumps(&folder.join("dumped"))
}

#[test]
fn types_are_stated() {
    let dumps = dumps_of("types_are_those_of_numpy_or_converted");
    assert_eq!(dumps.len(), TYPES.len());
    for dumped in dumps {
        let element = dumped.line["type"].as_str().expect("a type");
        let expected = TYPES.iter().find(|(known, _)| *known == element).expect("a known type").1;
        assert_eq!(dumped.line["dtype"], expected, "{}", dumped.line);
        assert_eq!(dumped.line["shape"], serde_json::json!([3, 64]));
        assert_eq!(dumped.line["ne"], serde_json::json!([64, 3, 1, 1]));
    }
}

#[test]
fn changes_in_place_and_losses_are_stated() {
    let changed = dumps_of("in_place_result_is_what_remains");
    let by: Vec<Option<&str>> = changed.iter().map(|dumped| dumped.line["changed_by"].as_str()).collect();
    assert_eq!(by, [Some("\"second\" (SCALE)"), None]);
    let lost = dumps_of("overwritten_tensor_is_refused");
    let a = lost.iter().find(|dumped| dumped.name() == "a").expect("it is listed");
    assert!(a.array.is_none() && a.line["overwritten_by"].is_string(), "{}", a.line);
}
