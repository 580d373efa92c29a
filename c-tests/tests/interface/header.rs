//! `include/lastuse.h` is enough by itself, may be included twice, and works from C++.

use crate::support;
use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;

/// In the oldest language that the header promises and in a newer one: warnings are errors.
fn compiles_and_runs(name: &str, source: &str) {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let is_c = source.ends_with(".c");
    for standard in if is_c { ["c99", "c11"] } else { ["c++11", "c++17"] } {
        let flags = [&format!("-std={standard}"), "-Wpedantic", "-pedantic-errors"];
        let name = format!("{name}-{standard}");
        let program = Program::build(&name, &[source], &ggml, Linked::LastuseArchive(&lastuse), &flags);
        support::passes(&support::expect(program), &[]);
    }
}

/// gcc accepts what clang warns of, and the other way around.
#[test]
fn clang_warns_of_nothing() {
    let folder = lastuse_c_tests::folder();
    for (language, standard) in [("c", "c99"), ("c", "c11"), ("c++", "c++11")] {
        let mut command = std::process::Command::new("clang");
        command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-pedantic-errors", "-x", language]);
        command.arg(format!("-std={standard}")).arg("-I").arg(folder.with_file_name("include"));
        let output = command.arg(folder.join("tests/interface/header/alone.c")).output();
        let output = output.expect("clang is installed: .ci/run does so");
        assert!(output.status.success(), "{standard}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn alone() {
    compiles_and_runs("header-alone", "tests/interface/header/alone.c");
}

#[test]
fn twice() {
    compiles_and_runs("header-twice", "tests/interface/header/twice.c");
}

#[test]
fn behind_ggmls_own() {
    compiles_and_runs("header-behind", "tests/interface/header/behind.c");
}

#[test]
fn from_cpp_behind_ggmls_own() {
    compiles_and_runs("header-cpp-behind", "tests/interface/header/cpp_behind.cpp");
}

#[test]
fn from_cpp() {
    compiles_and_runs("header-cpp", "tests/interface/header/cpp.cpp");
}

/// The assumption of the other tests here.
#[test]
fn warnings_are_errors() {
    let ggml = support::ggml(Package::LlamaCpp);
    let error = Program::build("warning", &["tests/interface/header/warning.c"], &ggml, Linked::Ggml, &[]).map(drop);
    assert!(error.is_err_and(|error| error.contains("-Werror=unused-variable")));
}
