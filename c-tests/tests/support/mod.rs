//! Helpers shared by the tests of this folder: each library is built once, also when many tests want it.
#![allow(dead_code, reason = "each test file uses some of it")]

pub mod llama_style;
pub mod survey;
pub mod tool;

use std::ffi::OsStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use lastuse_c_tests::{Build, Lastuse, Linked, Outcome, Program, build_side_by_side, lastuse};
use lastuse_vendor::{Ggml, Package};

static BUILDING: Mutex<()> = Mutex::new(());

/// Ends the test with the message of an error.
pub fn expect<T>(result: Result<T, String>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the results of a function for each item, in their order, computed by one thread per core.
pub fn in_parallel<T: Sync, R: Send + Sync>(items: &[T], compute: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<R>> = items.iter().map(|_| OnceLock::new()).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    results[at].get_or_init(|| compute(item));
                }
            });
        }
    });
    results.into_iter().map(|result| result.into_inner().expect("each was computed")).collect()
}

/// The ggml of a package.
pub fn ggml(package: Package) -> Ggml {
    let _one_at_a_time = BUILDING.lock();
    expect(lastuse_vendor::ggml(package))
}

/// lastuse as users build it.
pub fn release() -> Lastuse {
    library(Build::Release)
}

/// lastuse that simulates every plan before it is used.
pub fn checked() -> Lastuse {
    library(Build::Checked)
}

/// lastuse built in some way.
pub fn library(build: Build) -> Lastuse {
    let _one_at_a_time = BUILDING.lock();
    build_side_by_side();
    expect(lastuse(build))
}

/// Builds a source, relative to the folder of the C programs, as a program called `name`, without further flags.
pub fn build(name: &str, source: &str, ggml: &Ggml, linked: Linked<'_>) -> Program {
    expect(Program::build(name, &[source], ggml, linked, &[]))
}

/// Links everything in an archive of ggml into a shared library of that name, and returns its path.
pub fn shared_from_archive(name: &str, ggml: &Ggml, part: &str, flags: &[&str]) -> String {
    let archive = ggml.libraries.join(format!("lib{part}.a")).display().to_string();
    let all = ["-Wl,--whole-archive", &archive, "-Wl,--no-whole-archive", "-lm"];
    expect(Program::build_shared(name, &[], ggml, &[&all, flags].concat())).display().to_string()
}

/// Builds a source on the ggml of llama.cpp, with upstream's allocator and lastuse's.
pub fn build_with_both(name: &str, source: &str) -> Program {
    build(name, source, &ggml(Package::LlamaCpp), Linked::Both(&checked()))
}

/// Returns the cases that a program lists when it is run without a case.
pub fn listed_cases(program: &Program, arguments: &[&str]) -> Vec<String> {
    let outcome = expect(program.run(arguments));
    assert_eq!(outcome.code, Some(2), "{}", outcome.describe());
    let cases: Vec<String> = outcome.stdout.lines().map(str::to_owned).collect();
    assert!(!cases.is_empty(), "{} lists no case", program.path().display());
    cases
}

/// Runs a program and expects it to pass.
pub fn passes(program: &Program, arguments: &[&str]) -> Outcome {
    let outcome = expect(program.run(arguments));
    assert_eq!(outcome.code, Some(0), "{arguments:?}: {}", outcome.describe());
    outcome
}

/// Runs all cases of a program with these variables, and expects them to pass.
pub fn all_cases_pass(program: &Program, variables: &[(&str, &OsStr)]) {
    for case in listed_cases(program, &[]) {
        let outcome = expect(program.run_with(&[&case], variables));
        assert_eq!(outcome.code, Some(0), "{case}: {}", outcome.describe());
    }
}
