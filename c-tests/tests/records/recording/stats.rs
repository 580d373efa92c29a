//! `lastuse_stats_report`: the program compares the numbers with its own work.

use std::ffi::OsStr;

use lastuse_c_tests::Linked;
use lastuse_vendor::Package;

use super::{Folder, program, run};
use crate::support::{self, expect};

#[test]
fn numbers_add_up() {
    for case in ["stats_add_up", "stats_of_measuring", "stats_in_threads", "stats_of_other_sizes"] {
        run(&[case], &[]);
    }
}

/// Captures and the report change none of them.
#[test]
fn numbers_add_up_with_records() {
    let folder = Folder::new("stats");
    let report = folder.join("report.jsonl");
    let graphs = folder.join("graphs");
    for case in ["stats_of_measuring", "stats_in_threads"] {
        run(&[case], &[("LASTUSE_REPORT", report.as_os_str()), ("LASTUSE_CAPTURE", graphs.as_os_str())]);
    }
    assert_eq!(Folder(graphs).names().len(), 21);
}

#[test]
fn struct_that_is_too_small_is_refused() {
    let outcome = expect(program().run(&["stats_without_room"]));
    assert_eq!(outcome.signal, Some(6), "{}", outcome.describe());
    assert!(
        outcome.stderr.contains("lastuse_stats_report: report->struct_size is 8: set it to the size of the struct"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn nothing_is_counted_where_lastuse_is_not_enabled() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let program =
        support::build("not-enabled", "tests/records/recording/not_enabled.c", &ggml, Linked::LastuseShared(&lastuse));
    let outcome = expect(program.run_with(&[], &[("LASTUSE", OsStr::new("off"))]));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
}
