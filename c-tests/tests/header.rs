//! `include/lastuse.h` is enough by itself, may be included twice, and works from C++.

mod support;

use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;

fn compiles_and_runs(name: &str, source: &str) {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let program = Program::build(name, &[source], &ggml, Linked::LastuseArchive(&lastuse), &["-pedantic"]);
    support::passes(&support::expect(program), &[]);
}

#[test]
fn alone() {
    compiles_and_runs("header-alone", "programs/header_alone.c");
}

#[test]
fn twice() {
    compiles_and_runs("header-twice", "programs/header_twice.c");
}

#[test]
fn behind_ggmls_own() {
    compiles_and_runs("header-behind", "programs/header_behind.c");
}

#[test]
fn from_cpp_behind_ggmls_own() {
    compiles_and_runs("header-cpp-behind", "programs/header_cpp_behind.cpp");
}

#[test]
fn from_cpp() {
    compiles_and_runs("header-cpp", "programs/header_cpp.cpp");
}
