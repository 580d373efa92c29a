//! A language model written in lastuse's API computes the same logits as in ggml's alone, to the last bit.

use std::ffi::OsStr;

use crate::support;
use crate::support::llama_style::{self, LAYERS, number, run};
use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;

/// Which cache, how it is written, and which attention reads it; how many copies into it the API does without.
const CACHES: [(&[&str], u64); 4] = [
    (&[], 0),
    (&["--kv-write", "copy"], 0),
    (&["--kv-write", "copy", "--kv-type", "f32"], 2 * LAYERS),
    (&["--kv-write", "copy", "--kv-type", "f32", "--attention", "softmax"], 2 * LAYERS),
];

/// Compares both APIs with equal options.
fn compare(program: &Program, mode: &[&str], without_copy: u64, variables: &[(&str, &OsStr)]) {
    let ggml = run(program, &[mode, &["--api", "ggml"]].concat(), variables);
    let lastuse = run(program, &[mode, &["--api", "lastuse"]].concat(), variables);
    assert!(ggml.value("logits_hash").is_some(), "{}", ggml.describe());
    assert_eq!(lastuse.value("logits_hash"), ggml.value("logits_hash"), "{mode:?}");
    assert_eq!(number(&lastuse, "cache_copies") + without_copy, number(&ggml, "cache_copies"), "{mode:?}");
    if !mode.contains(&"sched") {
        assert_eq!(number(&lastuse, "measured_bytes"), number(&lastuse, "compute_buffer_bytes"), "{mode:?}");
    }
}

fn compare_all(program: &Program, variables: &[(&str, &OsStr)]) {
    for (cache, without_copy) in CACHES {
        for allocator in ["gallocr", "sched"] {
            compare(program, &[cache, &["--allocator", allocator]].concat(), without_copy, variables);
        }
    }
}

#[test]
fn same_logits_with_ggml_0_26() {
    let lastuse = support::release();
    compare_all(&llama_style::build("llama-api-0.26", Package::LlamaCpp, Linked::LastuseArchive(&lastuse)), &[]);
}

#[test]
fn same_logits_with_ggml_0_9_5() {
    let lastuse = support::release();
    compare_all(&llama_style::build("llama-api-0.9.5", Package::WhisperCpp, Linked::LastuseArchive(&lastuse)), &[]);
}

#[test]
fn same_logits_where_ggmls_own_allocator_serves() {
    let lastuse = support::release();
    let variables = [("LD_PRELOAD", lastuse.shared.as_os_str()), ("LASTUSE", OsStr::new("off"))];
    compare_all(&llama_style::build("llama-api-off", Package::LlamaCpp, Linked::SharedGgml), &variables);
}

#[test]
fn program_without_lastuse_reports_that_it_is_missing() {
    let program = llama_style::build("llama-api-without", Package::LlamaCpp, Linked::Ggml);
    let outcome = support::expect(program.run(&["--api", "lastuse"]));
    assert_eq!(outcome.code, Some(1), "{}", outcome.describe());
    assert!(outcome.stderr.contains("lastuse is neither linked nor preloaded"), "{}", outcome.describe());
}
