//! Every function of `include/lastuse.h` has an example, and every example, including that of docs/api.md, compiles and
//! runs: as C11 and as C++17, on two versions of ggml.

mod header;
mod program;
#[path = "../support/mod.rs"]
mod support;

use std::ffi::OsStr;

use header::{Page, example, functions, names, pages};
use lastuse_c_tests::Linked;
use lastuse_vendor::{Language, Package, target_folder};

const HEADER: &str = include_str!("../../../include/lastuse.h");
const API_PAGE: &str = include_str!("../../../docs/api.md");

/// Returns the pages of the header, and docs/api.md as the page named `api`.
fn all_pages() -> Vec<Page> {
    let mut all = pages(HEADER);
    let lines: Vec<(usize, &str)> = (1..).zip(API_PAGE.lines()).collect();
    all.push(Page { function: "api".to_owned(), example: example(&lines) });
    assert!(all.last().is_some_and(|page| page.example.is_some()), "docs/api.md has an example");
    all
}

/// Compiles all examples and runs them.
fn examples_work(name: &str, package: Package, language: Language) {
    let (ggml, lastuse) = (support::ggml(package), support::release());
    let program = program::build(name, language, &all_pages(), &ggml, Linked::LastuseArchive(&lastuse));
    // Examples write files to the working directory.
    let folder = target_folder().join("c-tests/examples-files").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the target folder can be written to");
    let outcome = support::expect(support::expect(program).run_in(&folder, &[], &[]));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
    let ran = outcome.stdout.lines().filter(|line| line.starts_with("example of ")).count();
    assert_eq!(ran, all_pages().iter().filter(|page| page.example.is_some()).count(), "{}", outcome.describe());
}

#[test]
fn every_function_has_an_example_that_calls_it() {
    let pages = pages(HEADER);
    let expected = functions();
    assert!(expected.len() > 10, "{expected:?}");
    for function in expected {
        let page = pages.iter().find(|page| page.function == function);
        let page = page.unwrap_or_else(|| panic!("{function} is not declared in lastuse.h"));
        let example = page.example.as_ref().unwrap_or_else(|| panic!("{function} has no example"));
        assert!(
            names(HEADER, &function).iter().any(|name| example.calls(name)),
            "the example of {function} does not call it"
        );
    }
}

#[test]
fn as_c() {
    examples_work("examples-c", Package::LlamaCpp, Language::C);
}

#[test]
fn as_cpp() {
    examples_work("examples-cpp", Package::LlamaCpp, Language::Cpp);
}

#[test]
fn as_c_on_ggml_0_9_5() {
    examples_work("examples-c-0.9.5", Package::WhisperCpp, Language::C);
}

#[test]
fn as_cpp_on_ggml_0_9_5() {
    examples_work("examples-cpp-0.9.5", Package::WhisperCpp, Language::Cpp);
}

/// A program written in this API also runs where ggml's own allocator does the work.
#[test]
fn switched_off() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let linked = Linked::LastuseShared(&lastuse);
    let program = support::expect(program::build("examples-off", Language::C, &all_pages(), &ggml, linked));
    let outcome = support::expect(program.run_with(&[], &[("LASTUSE", OsStr::new("off"))]));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
    assert!(outcome.stdout.contains("graphs are planned by ggml's own allocator"), "{}", outcome.describe());
}
