//! The cases of the test programs in `programs/`: one test for each case and each ggml that the first line of the program
//! names. Programs that one Rust test runs lie beside it.

mod support;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::{fs, iter};

use lastuse_c_tests::{Case, Linked, Outcome, Program, Runs, Way, cases, folder};
use lastuse_vendor::Package;
use libtest_mimic::{Arguments, Trial};
use support::expect;

/// The exit code of a case that shows a fault of ggml's own allocator.
const FAULT_SHOWN: i32 = 42;

/// Finds leaks, and accesses outside of any memory.
const SANITIZE: &[&str] = &["-fsanitize=address", "-fno-omit-frame-pointer"];

/// A program on one ggml, built when the first of its cases runs.
struct Built {
    runs: Runs,
    ggml: (&'static str, Package),
    is_sanitized: bool,
    program: OnceLock<Program>,
}

impl Built {
    fn all_of(runs: &Runs) -> Vec<Arc<Self>> {
        let new =
            |ggml, is_sanitized| Arc::new(Self { runs: runs.clone(), ggml, is_sanitized, program: OnceLock::new() });
        let sanitized = runs.is_sanitized.then(|| new(runs.ggmls[0], true));
        runs.ggmls.iter().map(|&ggml| new(ggml, false)).chain(sanitized).collect()
    }

    /// On the first ggml, the name of the program.
    fn label(&self) -> String {
        let name = &self.runs.name;
        match self.ggml.0.replace(['-', '.'], "_") {
            _ if self.is_sanitized => format!("{name}_sanitized"),
            _ if self.ggml == self.runs.ggmls[0] => name.clone(),
            ggml => format!("{name}_on_{ggml}"),
        }
    }

    /// The cases that the program has on this ggml.
    fn cases(&self) -> Vec<&Case> {
        let is_there = |case: &&Case| !case.is_conditional || self.ggml == self.runs.ggmls[0];
        self.runs.cases.iter().filter(is_there).collect()
    }

    fn build(&self) -> Program {
        let (ggml, lastuse) = (support::ggml(self.ggml.1), support::checked());
        assert!(format!("ggml-{}.", ggml.version).starts_with(&format!("{}.", self.ggml.0)), "{}", ggml.version);
        let linked = match self.runs.way {
            Way::OnAndOff if !self.is_sanitized => Linked::LastuseShared(&lastuse),
            Way::WithoutLastuse => Linked::Ggml,
            _ => Linked::Both(&lastuse),
        };
        let source = format!("programs/{}.c", self.runs.name);
        let flags = if self.is_sanitized { SANITIZE } else { &[] };
        let program = expect(Program::build(&self.label(), &[&source], &ggml, linked, flags));
        let expected: Vec<&str> = self.cases().iter().map(|case| case.name.as_str()).collect();
        assert_eq!(support::listed_cases(&program, &[]), expected, "a case is not in the form CASE(name) {{");
        program
    }

    fn run(&self, arguments: &[&str], more: Option<(&str, &str)>) -> Outcome {
        let own = self.runs.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let variables: Vec<(&str, &OsStr)> = own.chain(more).map(|(name, value)| (name, OsStr::new(value))).collect();
        expect(self.program.get_or_init(|| self.build()).run_with(arguments, &variables))
    }

    fn passes(&self, case: &Case) {
        let passed = |outcome: &Outcome, how: &str| assert_eq!(outcome.code, Some(0), "{how}: {}", outcome.describe());
        if self.runs.way == Way::Faults {
            passed(&self.run(&[&case.name, "lastuse"], None), "lastuse");
            let upstream = self.run(&[&case.name, "upstream"], None);
            let is_shown = upstream.code == Some(FAULT_SHOWN) || upstream.signal.is_some();
            assert!(is_shown, "upstream does not show the fault: {}", upstream.describe());
            return;
        }
        passed(&self.run(&[&case.name], None), self.ggml.0);
        if self.runs.way == Way::OnAndOff && !self.is_sanitized && !case.needs_lastuse {
            passed(&self.run(&[&case.name], Some(("LASTUSE", "off"))), "LASTUSE=off");
        }
    }
}

/// Returns a test that fails when `test` panics.
fn trial(name: &str, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

fn trials_of(runs: &Runs) -> Vec<Trial> {
    let of_case = |built: &Arc<Built>, case: &Case| {
        let (built, case) = (Arc::clone(built), case.clone());
        trial(&format!("{}::{}", built.label(), case.name), move || built.passes(&case))
    };
    let of_one = |built: &Arc<Built>| -> Vec<Trial> { built.cases().iter().map(|case| of_case(built, case)).collect() };
    Built::all_of(runs).iter().flat_map(of_one).collect()
}

/// Puts the second half of the tests between those of the first. All cases of a program wait until it is built: two cores then
/// build two programs.
fn from_both_halves(mut trials: Vec<Trial>) -> Vec<Trial> {
    let mut others = trials.split_off(trials.len().div_ceil(2)).into_iter();
    trials.into_iter().flat_map(|trial| [Some(trial), others.next()]).flatten().collect()
}

/// The files of a folder and of the folders in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { iter::once(path).collect() }).collect()
}

/// A program beside a test is named by the code of that test, which runs all of its cases or names each. Those in
/// `support` are for several tests.
fn programs_beside_tests_are_run() {
    let read = |file: &PathBuf| fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let is_of = |file: &Path, endings: &[&str]| endings.iter().any(|it| file.extension().is_some_and(|of| of == *it));
    let (tests, mut checked) = (folder().join("tests"), 0);
    let all = files(&tests);
    for program in all.iter().filter(|file| is_of(file, &["c", "cpp"])) {
        let path = program.strip_prefix(folder()).expect("it is in the folder").display().to_string();
        let of_test =
            path.split('/').nth(1).filter(|name| *name != "support").map_or(tests.clone(), |name| tests.join(name));
        let drivers = all.iter().filter(|file| is_of(file, &["rs"]) && file.starts_with(&of_test)).map(read);
        let code: String = drivers.collect();
        let runs_all = ["listed_cases(", "all_cases_pass(", "survey::run("].iter().any(|call| code.contains(call));
        let unrun: Vec<_> = cases(&read(program)).into_iter().map(|case| case.name).collect();
        let is_named = |case: &&String| !runs_all && !code.contains(&format!("\"{case}\""));
        assert!(code.contains(&format!("\"{path}\"")), "no test builds {path}");
        assert_eq!(unrun.iter().filter(is_named).collect::<Vec<_>>(), [""; 0], "cases of {path} that no test runs");
        checked += 1;
    }
    assert!(checked > 20, "{checked} programs were found");
}

fn main() -> ExitCode {
    let mut trials = vec![trial("programs_beside_tests_are_run", programs_beside_tests_are_run)];
    for runs in expect(Runs::all()) {
        match runs {
            Ok(runs) => trials.extend(trials_of(&runs)),
            Err(message) => trials.push(trial(&message.clone(), move || panic!("{message}"))),
        }
    }
    libtest_mimic::run(&Arguments::from_args(), from_both_halves(trials)).exit_code()
}
