//! Verification at run time: graphs that are right pass with the results that they have without it, and each kind of fault is
//! named; on two versions of ggml.

mod support;

use std::ffi::OsStr;
use std::sync::OnceLock;

use lastuse_c_tests::{Linked, Outcome, Program};
use lastuse_vendor::Package;

/// What the program answers when it was ended with the right message.
const ABORTED: i32 = 43;

fn build(name: &str, package: Package, label: &str, supports: &[&str]) -> Program {
    let sources = support::sources(name, supports);
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let (ggml, lastuse) = (support::ggml(package), support::checked());
    support::expect(Program::build(&format!("{name}{label}"), &sources, &ggml, Linked::Both(&lastuse), &[]))
}

/// A module for a version of ggml; in it a test a case.
macro_rules! on {
    ($module:ident, $package:expr, $label:literal: $($case:ident),* $(,)?) => {
        mod $module {
            use super::*;

            fn program() -> &'static Program {
                static PROGRAM: OnceLock<Program> = OnceLock::new();
                PROGRAM.get_or_init(|| build("verify", $package, $label, &["random_graph", "plan_check", "transformer"]))
            }

            $(
                #[test]
                fn $case() {
                    support::passes(program(), &[stringify!($case)]);
                }
            )*

            #[test]
            fn every_fault_is_named() {
                faults_are_named(&build("verify_faults", $package, $label, &[]));
            }
        }
    };
}

on!(on_ggml_0_26, Package::LlamaCpp, "":
    one_thread, two_threads, markers, copies, scheduler, upstream_allocator, oddities, inputs_share_bytes,
    source_is_overwritten_while_it_is_read, value_is_overwritten_before_its_last_reader,
    tensor_beyond_the_end_of_its_buffer, tensor_before_the_start_of_its_buffer, view_elsewhere, tensor_without_memory,
    result_is_lost, freed_memory_makes_no_sense, functions_of_the_program_may_be_trusted,
    marked_weights_are_left_out_and_that_is_said_once, words,
    graphs_of_many_shapes_pass,
);

on!(on_ggml_0_9_5, Package::WhisperCpp, "-0.9.5":
    one_thread, two_threads, scheduler, upstream_allocator, value_is_overwritten_before_its_last_reader,
    freed_memory_makes_no_sense,
);

fn faults_are_named(program: &Program) {
    let cases = support::expect(program.run(&[])).stdout;
    assert!(cases.lines().count() > 15, "the program lists its cases");
    for case in cases.lines() {
        let outcome = support::expect(program.run(&[case]));
        assert_eq!(outcome.code, Some(ABORTED), "{case}: {}", outcome.describe());
    }
}

/// The small language model with verification from the environment.
fn language_model(words: &str) -> Outcome {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let lastuse = support::release();
        support::llama_style::build("verified-llama-style", Package::LlamaCpp, Linked::LastuseArchive(&lastuse))
    });
    support::llama_style::run(program, &[], &[("LASTUSE_VERIFY", OsStr::new(words))])
}

#[test]
fn environment_turns_it_on_and_results_stay_the_same() {
    let reference = language_model("");
    for words in ["plan", "memory", "weights", "plan,no-custom"] {
        let outcome = language_model(words);
        assert_eq!(outcome.value("logits_hash"), reference.value("logits_hash"), "{words}");
        assert_eq!(outcome.stderr, reference.stderr, "{words}");
    }
}

#[test]
fn wrong_environment_is_reported_and_has_no_effect() {
    let outcome = language_model("plan,everything");
    assert!(
        outcome.stderr.contains("LASTUSE_VERIFY has no effect: \"everything\" is unknown"),
        "{}",
        outcome.describe()
    );
}

/// The numbers of `docs/verification.md` come from this program.
#[test]
fn costs_can_be_measured() {
    let sources = support::sources("verify_cost", &["transformer"]);
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let linked = Linked::LastuseArchive(&lastuse);
    let program = support::expect(Program::build("verify_cost", &sources, &ggml, linked, &[]));
    let outcome = support::passes(&program, &["2", "4"]);
    for key in ["nodes", "verify", "compute", "compute_guarded", "alloc_graph_again_with_plan"] {
        let number: Option<f64> = outcome.value(key).and_then(|value| value.parse().ok());
        assert!(number.is_some_and(|number| number > 0.0), "{key}: {}", outcome.describe());
    }
}
