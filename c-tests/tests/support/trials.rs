//! Tests made when they are run: one for each case of a C program. Their test targets have no own harness.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use lastuse_c_tests::{Program, cases};
use libtest_mimic::{Arguments, Trial};

use super::{expect, listed_cases};

/// Returns a test `<label>::<case>` for each case of `programs/<source>.c`. The program is built when the first of them
/// runs; `test` gets it with the case, and panics when the test fails.
pub fn of_cases(
    label: &str,
    source: &str,
    build: impl Fn() -> Program + Copy + Send + 'static,
    test: impl Fn(&Program, &str) + Copy + Send + 'static,
) -> Vec<Trial> {
    let program = Arc::new(OnceLock::new());
    let cases = Arc::new(expect(cases(source)));
    assert!(!cases.is_empty(), "programs/{source}.c has no case");
    let trial = |number: usize| {
        let (program, cases) = (Arc::clone(&program), Arc::clone(&cases));
        of_function(&format!("{label}::{}", cases[number]), move || {
            let checked = || {
                let program = build();
                assert_eq!(listed_cases(&program, &[]), *cases, "a case is not in the form CASE(case) {{");
                program
            };
            test(program.get_or_init(checked), &cases[number]);
        })
    };
    (0..cases.len()).map(trial).collect()
}

/// Returns a test that fails when `test` panics.
pub fn of_function(name: &str, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

/// Runs the tests that the arguments of the process select.
pub fn run(trials: Vec<Trial>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
