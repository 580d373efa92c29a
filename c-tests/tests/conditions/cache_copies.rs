//! A language model whose cache has the type of the computed rows: no row is copied into it.

use std::ffi::OsStr;

use crate::support;
use crate::support::llama_style::{self, LAYERS, number, run};
use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;

const SAME_TYPE: [&str; 2] = ["--kv-type", "f32"];

/// Compares the model with rows written by index, with rows copied, and with the copies removed.
fn compare(program: &Program, mode: &[&str], removed: u64, left: u64) {
    let with = |more: &[&str]| run(program, &[&SAME_TYPE, mode, more].concat(), &[]);
    let rows = with(&["--kv-write", "rows"]);
    let kept = with(&["--kv-write", "copy"]);
    let without = with(&["--kv-write", "copy", "--copies", "removed"]);
    for outcome in [&kept, &without] {
        assert_eq!(outcome.value("logits_hash"), rows.value("logits_hash"), "{mode:?}");
    }
    assert_eq!([number(&without, "copies_removed"), number(&without, "copies_left")], [removed, left], "{mode:?}");
    assert!(number(&without, "copied_bytes_removed") > 0);
    assert!(number(&without, "compute_buffer_bytes") <= number(&kept, "compute_buffer_bytes"), "{mode:?}");
}

/// With flash attention the cast of the mask is left. Softmax attention joins the heads by a copy.
fn compare_all(program: &Program) {
    for allocator in ["gallocr", "sched"] {
        let flash = ["--attention", "flash", "--allocator", allocator];
        compare(program, &flash, 2 * LAYERS, 1);
        compare(program, &["--attention", "softmax", "--allocator", allocator], 2 * LAYERS, LAYERS);
    }
}

#[test]
fn no_row_is_copied_into_a_cache_of_ggml_0_26() {
    let lastuse = support::release();
    compare_all(&llama_style::build("cache-copies-0.26", Package::LlamaCpp, Linked::LastuseArchive(&lastuse)));
}

#[test]
fn no_row_is_copied_into_a_cache_of_ggml_0_9_5() {
    let lastuse = support::release();
    compare_all(&llama_style::build("cache-copies-0.9.5", Package::WhisperCpp, Linked::LastuseArchive(&lastuse)));
}

#[test]
fn copies_are_removed_where_ggmls_own_allocator_serves() {
    let lastuse = support::release();
    let program = llama_style::build("cache-copies-shared", Package::LlamaCpp, Linked::SharedGgml);
    let kept = run(&program, &[SAME_TYPE, ["--kv-write", "copy"]].concat(), &[]);
    let preload = [("LD_PRELOAD", lastuse.shared.as_os_str()), ("LASTUSE", OsStr::new("off"))];
    let removed = [&SAME_TYPE[..], &["--kv-write", "copy", "--copies", "removed"]].concat();
    let without = run(&program, &removed, &preload);
    assert_eq!(without.value("allocator"), Some("ggml"));
    assert_eq!(number(&without, "copies_removed"), 2 * LAYERS);
    assert_eq!(without.value("logits_hash"), kept.value("logits_hash"));
    assert!(number(&without, "compute_buffer_bytes") <= number(&kept, "compute_buffer_bytes"));
}
