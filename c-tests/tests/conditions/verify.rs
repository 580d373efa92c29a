//! Verification at run time: each kind of fault is named, on three versions of ggml, and the environment turns it on.
//! Correct graphs are verified by the cases of `programs/verify.c`.

use std::ffi::OsStr;
use std::sync::OnceLock;

use crate::support;
use lastuse_c_tests::{Linked, Outcome, Program};
use lastuse_vendor::Package;

fn every_fault_is_named(name: &str, package: Package) {
    let (ggml, lastuse) = (support::ggml(package), support::checked());
    let program = support::build(name, "tests/conditions/verify_faults.c", &ggml, Linked::Both(&lastuse));
    assert!(support::listed_cases(&program, &[]).len() > 24);
    support::all_cases_pass(&program, &[]);
}

#[test]
fn every_fault_is_named_on_ggml_0_26() {
    every_fault_is_named("verify_faults", Package::LlamaCpp);
}

#[test]
fn every_fault_is_named_on_ggml_0_9_5() {
    every_fault_is_named("verify_faults-0.9.5", Package::WhisperCpp);
}

#[test]
fn every_fault_is_named_on_ggml_0_28() {
    every_fault_is_named("verify_faults-0.28", Package::LlamaCpp4);
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
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let program =
        support::build("verify_cost", "tests/conditions/verify_cost.c", &ggml, Linked::LastuseArchive(&lastuse));
    let outcome = support::passes(&program, &["2", "4"]);
    for key in ["nodes", "verify", "compute", "compute_guarded", "alloc_graph_again_with_plan"] {
        let number: Option<f64> = outcome.value(key).and_then(|value| value.parse().ok());
        assert!(number.is_some_and(|number| number > 0.0), "{key}: {}", outcome.describe());
    }
}
