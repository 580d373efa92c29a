//! Every function that fails sets `lastuse_last_error`.

use std::ffi::OsStr;

use crate::support;
use crate::support::{build, expect, listed_cases, passes, release};
use lastuse_c_tests::{Linked, folder};
use lastuse_vendor::Package;

/// The case for a process in which ggml's own allocator does the work.
const SWITCHED_OFF: &str = "functions_of_a_process_without_lastuse_fail";

/// Functions that cannot fail, and those that end in `ggml_abort`.
const NEVER_FAIL: [&str; 22] = [
    "ggml_backend_alloc_ctx_tensors_from_buft_size",
    "ggml_gallocr_free",
    "ggml_gallocr_get_buffer_size",
    "ggml_gallocr_new",
    "ggml_gallocr_new_n",
    "ggml_gallocr_reserve_n_size",
    "ggml_op_can_inplace",
    "ggml_tallocr_new",
    "lastuse_arena_discard",
    "lastuse_arena_free",
    "lastuse_arena_turn",
    "lastuse_buffer_allocate_by",
    "lastuse_enabled",
    "lastuse_guard_check_graph",
    "lastuse_guard_check_tensor",
    "lastuse_last_error",
    "lastuse_sched_forget",
    // It fails where there is no memory for the structs of added tensors.
    "lastuse_sched_prepare",
    "lastuse_sched_restore",
    "lastuse_sched_room",
    "lastuse_string_free",
    "lastuse_version",
];

fn text(path: &str) -> String {
    std::fs::read_to_string(folder().join(path)).expect("the file can be read")
}

#[test]
fn every_function_that_fails_is_called() {
    let program = text("tests/interface/last_error.c");
    let is_called = |name: &str| {
        let calls = ["FAILS(", "FAILS_WITH_FALSE(", "FAILS_WITH_NULL(", "FAILS_WITH_MINUS_1("];
        calls
            .iter()
            .any(|call| program.contains(&format!("{call}{name},")) || program.contains(&format!("{call}{name})")))
    };
    for name in text("exports.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        assert!(is_called(name) != NEVER_FAIL.contains(&name), "{name}: no case makes it fail, or it is in NEVER_FAIL");
    }
}

#[test]
fn the_last_error_is_of_the_function_that_has_failed() {
    for (name, package) in [("last_error", Package::LlamaCpp), ("last_error-0.9.5", Package::WhisperCpp)] {
        let program =
            build(name, "tests/interface/last_error.c", &support::ggml(package), Linked::LastuseArchive(&release()));
        for case in listed_cases(&program, &[]).iter().filter(|case| *case != SWITCHED_OFF) {
            passes(&program, &[case]);
        }
    }
}

#[test]
fn also_where_lastuse_is_switched_off() {
    let linked = release();
    let program = build(
        "last_error-off",
        "tests/interface/last_error.c",
        &support::ggml(Package::LlamaCpp),
        Linked::LastuseShared(&linked),
    );
    let outcome = expect(program.run_with(&[SWITCHED_OFF], &[("LASTUSE", OsStr::new("off"))]));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
}
