//! Every function of `include/lastuse.h` has an example in `docs/examples`, and every example, including that of
//! docs/api.md, compiles and runs: as C11 and as C++17, on two versions of ggml.

mod header;
mod program;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use crate::support;
use header::{Example, examples, functions, names, pages};
use lastuse_c_tests::Linked;
use lastuse_vendor::{Language, Package, target_folder};

const HEADER: &str = include_str!("../../../../include/lastuse.h");

/// Returns the files of examples with their text, by name.
fn files() -> Vec<(PathBuf, String)> {
    let folder = lastuse_c_tests::folder().with_file_name("docs/examples");
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let text = |path: &PathBuf| fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    paths.into_iter().map(|path| (path.clone(), text(&path))).collect()
}

/// Returns the examples of all files.
fn all_examples() -> Vec<Example> {
    files().iter().flat_map(|(_, text)| examples(text)).collect()
}

/// Compiles all examples and runs them.
fn examples_work(name: &str, package: Package, language: Language) {
    let (ggml, lastuse) = (support::ggml(package), support::release());
    let program = program::build(name, language, &files(), &ggml, Linked::LastuseArchive(&lastuse));
    // Examples write files to the working directory.
    let folder = target_folder().join("c-tests/examples-files").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    let outcome = support::expect(support::expect(program).run_in(&folder, &[], &[]));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
    let ran = outcome.stdout.lines().filter(|line| line.starts_with("example of ")).count();
    // And that of docs/api.md.
    assert_eq!(ran, all_examples().len() + 1, "{}", outcome.describe());
}

#[test]
fn every_function_has_an_example_that_calls_it() {
    let (pages, examples, expected) = (pages(HEADER), all_examples(), functions());
    assert!(expected.len() > 10, "{expected:?}");
    for function in &expected {
        assert!(pages.iter().any(|page| page.function == *function), "{function} is not declared in lastuse.h");
        let example = examples.iter().find(|example| example.name == *function);
        let example = example.unwrap_or_else(|| panic!("{function} has no example"));
        assert!(
            names(HEADER, function).iter().any(|name| example.calls(name)),
            "the example of {function} does not call it"
        );
    }
    assert_eq!(examples.len(), expected.len(), "an example for each function");
}

#[test]
fn the_header_names_every_file_of_examples() {
    for (path, _) in files() {
        let name = format!("docs/examples/{}\n", path.file_name().expect("a file").display());
        assert!(HEADER.contains(&name), "lastuse.h does not name {name}");
    }
    let named: HashSet<&str> =
        HEADER.split("docs/examples/").skip(1).filter_map(|rest| rest.split_whitespace().next()).collect();
    assert_eq!(named.len(), files().len(), "lastuse.h names other files: {named:?}");
}

#[test]
fn the_header_is_short() {
    assert!(HEADER.lines().count() <= 1000, "{} lines", HEADER.lines().count());
    for page in pages(HEADER) {
        let lines = page.comment_lines;
        assert!((1..=8).contains(&lines), "{} has {lines} lines of comment", page.function);
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
    let program = support::expect(program::build("examples-off", Language::C, &files(), &ggml, linked));
    let outcome = support::expect(program.run_with(&[], &[("LASTUSE", OsStr::new("off"))]));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
    assert!(outcome.stdout.contains("graphs are planned by ggml's own allocator"), "{}", outcome.describe());
}
