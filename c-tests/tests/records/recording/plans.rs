//! A captured graph, planned anew, gets exactly the plan that the program used.

use std::collections::HashMap;
use std::ffi::OsStr;

use lastuse::graph::snapshot::Snapshot;
use lastuse_c_tests::Program;
use lastuse_vendor::Package;
use serde_json::Value;

use super::{Folder, build, program, run};
use crate::support::{expect, tool};

/// Type, chunk and offset.
type Place = [u64; 3];

/// The output of a program about its plans.
#[derive(Default)]
struct Printed {
    /// By seed: for each buffer the bytes of lastuse and of ggml's own allocator.
    sizes: HashMap<String, Vec<[u64; 2]>>,
    /// By the name of a tensor.
    places: HashMap<String, Place>,
}

fn numbers<'w>(words: impl Iterator<Item = &'w str>) -> Vec<u64> {
    words.map(|word| word.parse().expect("a number")).collect()
}

impl Printed {
    fn read(text: &str) -> Self {
        let mut printed = Self::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            match (words.next(), words.next()) {
                (Some("sizes"), Some(seed)) => {
                    let sizes = numbers(words).as_chunks().0.to_vec();
                    printed.sizes.insert(seed.to_owned(), sizes);
                }
                (Some("at"), Some(name)) => {
                    let place = numbers(words).try_into().expect("three numbers");
                    printed.places.insert(name.to_owned(), place);
                }
                _ => {}
            }
        }
        printed
    }

    /// Compares a graph with the output. Returns its seed.
    fn check(&self, snapshot: &Snapshot) -> String {
        let first = snapshot.graph.leafs().iter().chain(snapshot.graph.nodes()).next().expect("a tensor");
        let (seed, _) = snapshot.tensors[*first as usize].name.split_once('/').expect("a seed");
        let plan = snapshot.plan_as_recorded().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for (buffer, &[lastuse, ggml]) in self.sizes[seed].iter().enumerate() {
            assert_eq!(plan.buffers[buffer].placement.size(), lastuse, "seed {seed}: buffer {buffer}");
            let recorded = snapshot.buffers[buffer].ggml_alloc_size;
            assert_eq!(recorded, Some(ggml), "seed {seed}: ggml in buffer {buffer}");
        }
        let mut planned = 0;
        for (id, info) in (0..).zip(&snapshot.tensors) {
            let Some(&place) = self.places.get(&info.name).filter(|_| snapshot.graph.tensor(id).is_owned()) else {
                continue;
            };
            let allocation = plan.allocations[id as usize].unwrap_or_else(|| panic!("{} has no place", info.name));
            let address = plan.address(allocation);
            let found = [u64::from(address.buffer), u64::from(address.chunk), address.offset];
            // A tensor without bytes may lie anywhere.
            assert!(found == place || info.size == 0, "{}: {found:?}, not {place:?}", info.name);
            planned += 1;
        }
        assert!(planned > 0, "seed {seed}: nothing is compared");
        seed.to_owned()
    }
}

fn plans_are_the_same(program: &Program, test: &str, case: &str, files: &str, variables: &[(&str, &OsStr)]) {
    let folder = Folder::new(test);
    let place = folder.join(files);
    let variables = [variables, &[("LASTUSE_CAPTURE", place.as_os_str())]].concat();
    let outcome = expect(program.run_with(&[case], &variables));
    assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{}", outcome.describe());
    let printed = Printed::read(&outcome.stdout);
    let mut seeds: Vec<String> = folder.graphs().iter().map(|snapshot| printed.check(snapshot)).collect();
    seeds.sort();
    let mut expected: Vec<String> = printed.sizes.into_keys().collect();
    expected.sort();
    assert_eq!(seeds, expected, "each graph is there once");
    assert_eq!(seeds.len(), 100);
}

#[test]
fn of_one_type() {
    plans_are_the_same(program(), "one-type", "one_type", "", &[]);
}

#[test]
fn of_one_type_compressed() {
    plans_are_the_same(program(), "one-type-compressed", "one_type", "%s.jsonl.gz", &[]);
}

#[test]
fn of_several_types() {
    plans_are_the_same(program(), "several-types", "several_types", "", &[]);
}

#[test]
fn of_what_a_scheduler_adds() {
    plans_are_the_same(program(), "markers-and-unlisted", "markers_and_unlisted", "", &[]);
}

#[test]
fn of_several_chunks() {
    plans_are_the_same(program(), "small-chunks", "small_chunks", "", &[]);
}

#[test]
fn with_other_rules_and_more_effort() {
    let variables = [("LASTUSE_RULES", OsStr::new("all,no-rows,no-concat")), ("LASTUSE_EFFORT", OsStr::new("2000000"))];
    plans_are_the_same(program(), "other-rules", "one_type", "", &variables);
}

#[test]
fn with_the_rules_of_ggml_and_no_search() {
    let variables = [("LASTUSE_RULES", OsStr::new("ggml")), ("LASTUSE_EFFORT", OsStr::new("1"))];
    plans_are_the_same(program(), "rules-of-ggml", "several_types", "", &variables);
}

#[test]
fn on_another_ggml() {
    let program = build("recording-0.9.5", Package::WhisperCpp);
    for case in ["one_type", "several_types"] {
        plans_are_the_same(&program, &format!("ggml-0.9.5-{case}"), case, "", &[]);
    }
}

/// The tool takes rules and effort from the file, unless options set others.
#[test]
fn by_the_tool() {
    let folder = Folder::new("by-the-tool");
    let variables = [("LASTUSE_CAPTURE", folder.0.as_os_str()), ("LASTUSE_RULES", OsStr::new("none"))];
    let printed = Printed::read(&run(&["one_type"], &variables).stdout);
    let files: Vec<_> = folder.names().iter().map(|name| folder.join(name)).collect();
    let sizes = |arguments: &[&str]| -> Vec<u64> {
        let output = tool::command(&["plan", "--json"]).args(arguments).args(&files).output();
        let output = output.expect("the tool starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let size = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["buffers"][0]["size"].as_u64();
        String::from_utf8_lossy(&output.stdout).lines().map(|line| size(line).expect("a size")).collect()
    };
    let mut found = sizes(&[]);
    let mut expected: Vec<u64> = printed.sizes.values().map(|sizes| sizes[0][0]).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let sum = |sizes: Vec<u64>| sizes.iter().sum::<u64>();
    assert!(sum(sizes(&["--rules", "all"])) < sum(found), "--rules has no effect");
}
