//! `LASTUSE_ACCOUNTING` in programs that preload the libraries.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use lastuse_c_tests::{Outcome, guard_library};
use lastuse_vendor::Package;
use serde_json::Value;

use super::schema::assert_follows_schema;
use super::tool::{device, folder, number, own_buffers};
use crate::support;

fn run(package: Package, label: &str, is_guarded: bool, file: &Path) -> Outcome {
    let program = own_buffers(package, label);
    let mut libraries: OsString = support::release().shared.into_os_string();
    if is_guarded {
        libraries.push(":");
        libraries.push(support::expect(guard_library()));
    }
    let variables: [(&str, &OsStr); 2] = [("LD_PRELOAD", &libraries), ("LASTUSE_ACCOUNTING", file.as_os_str())];
    let outcome = support::expect(program.run_with(&[], &variables));
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
    outcome
}

fn read(file: &Path) -> Value {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let value = serde_json::from_str(&text).expect("JSON");
    assert_follows_schema(&value);
    value
}

#[test]
fn both_libraries_count_everything() {
    let file = folder("both").join("memory.json");
    let outcome = run(Package::LlamaCpp, "-both", true, &file);
    let total = device(&read(&file))["total"].as_u64();
    assert_eq!(total, Some(number(&outcome.stdout, "asked") + number(&outcome.stdout, "mapped")));
}

/// Without the guard, buffers that the program allocates itself are found by the tensors in them: the one of outputs has none.
#[test]
fn lastuse_alone_counts_what_graphs_use() {
    let file = folder("alone").join("memory.json");
    let outcome = run(Package::LlamaCpp, "-alone", false, &file);
    let total = device(&read(&file))["total"].as_u64();
    assert_eq!(total, Some(number(&outcome.stdout, "asked") + number(&outcome.stdout, "mapped") - 777));
}

#[test]
fn each_process_has_a_file_where_the_name_says_so() {
    let folder = folder("process");
    for _ in 0..2 {
        run(Package::LlamaCpp, "-process", true, &folder.join("memory-%p.json"));
    }
    let files: Vec<_> = fs::read_dir(&folder).expect("it is there").flatten().map(|entry| entry.path()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        let process = read(&file)["process"].as_u64().expect("a number");
        assert_eq!(file.file_name().and_then(OsStr::to_str), Some(format!("memory-{process}.json").as_str()));
    }
}

#[test]
fn files_that_exist_or_cannot_be_written_are_reported_and_kept() {
    let folder = folder("exists");
    let file = folder.join("memory.json");
    fs::write(&file, "precious").expect("it can be written");
    let outcome = run(Package::LlamaCpp, "-exists", true, &file);
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "precious");
    let says = |outcome: &Outcome, part: &str| {
        assert!(outcome.stderr.contains(part), "{}", outcome.describe());
    };
    says(&outcome, "LASTUSE_ACCOUNTING has no effect: ");
    says(&outcome, "memory.json exists: name another file");
    says(
        &run(Package::LlamaCpp, "-exists", true, Path::new("/no/such/folder/x.txt")),
        "cannot write to /no/such/folder/x.txt",
    );
    assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 1, "no other file");
}

#[test]
fn json_can_go_to_the_standard_error() {
    let outcome = run(Package::LlamaCpp, "-stderr", true, Path::new("/dev/stderr"));
    assert!(outcome.stderr.contains("{\"format\":\"lastuse-accounting\""), "{}", outcome.describe());
}
