//! LASTUSE_REPORT: lines that are whole, parse, and add up.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use lastuse_c_tests::Linked;
use lastuse_vendor::Package;
use serde_json::{Value, json};

use super::{Folder, program, run};
use crate::support::{self, expect, llama_style};

fn events(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("the report is there");
    assert!(text.ends_with('\n'), "the last line is whole");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn of_kind<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["event"] == kind).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn report_has_events_of_each_allocator() {
    let folder = Folder::new("report");
    let path = folder.join("report.jsonl");
    let outcome = run(&["two_allocators"], &[("LASTUSE_REPORT", path.as_os_str())]);
    let events = events(&path);
    let order: Vec<(&str, u64)> = events
        .iter()
        .map(|it| (it["event"].as_str().expect("a word"), it["allocator"].as_u64().unwrap_or(0)))
        .collect();
    let plans = order.iter().filter(|(event, _)| *event == "plan").count();
    assert_eq!(order.first(), Some(&("start", 0)));
    assert_eq!(order[order.len() - 2..], [("free", 1), ("free", 2)]);
    assert_eq!(plans + 3, order.len());
    let start = &events[0];
    assert_eq!(
        [&start["lastuse"], &start["ggml"], &start["server"]],
        [&json!("0.1.0"), &json!("0.26.0"), &json!("lastuse")]
    );
    assert!(events.iter().all(|event| event["pid"] == start["pid"] && event["pid"].is_u64()));

    let last = |allocator: u64| {
        let plans = of_kind(&events, "plan");
        (*plans.iter().rfind(|event| event["allocator"] == allocator).expect("it has planned")).clone()
    };
    for (allocator, name) in [(1, "first"), (2, "second")] {
        let buffer = &last(allocator)["buffers"][0];
        assert_eq!(Some(&*number(&buffer["bytes"]).to_string()), outcome.value(name), "{buffer}");
        assert_eq!((&buffer["id"], &buffer["name"]), (&json!(0), &json!("CPU")));
        assert_eq!(
            buffer["bytes"], buffer["lower_bound"],
            "a chain is planned at its bound, and the largest plan counts"
        );
        assert!(number(&buffer["ggml_alloc_bytes"]) >= number(&buffer["bytes"]));
    }
    let first: Vec<&Value> = of_kind(&events, "plan").into_iter().filter(|event| event["allocator"] == 1).collect();
    let counts: Vec<u64> = first.iter().map(|event| number(&event["plans"])).collect();
    assert_eq!(counts, (1..=first.len() as u64).collect::<Vec<_>>());
    assert!(first.iter().is_sorted_by_key(|event| number(&event["plan_us"])));
    assert_eq!((number(&first[0]["leafs"]), number(&first[0]["nodes"])), (1, 2));
    let sizes: Vec<u64> = first.iter().map(|event| number(&event["buffers"][0]["plan_bytes"])).collect();
    assert!(sizes[0] < sizes[1], "{sizes:?}");
    assert!(first.iter().skip(1).all(|event| event["buffers"][0]["lower_bound"] == sizes[1]));
}

#[test]
fn threads_and_processes_share_a_file() {
    let folder = Folder::new("report-shared");
    let path = folder.join("report.jsonl");
    let variables = [("LASTUSE_REPORT", path.as_os_str())];
    let run = || program().command(&["in_threads", "20"], &variables).spawn().expect("it starts");
    let processes: Vec<_> = (0..4).map(|_| run()).collect();
    for mut process in processes {
        assert!(process.wait().expect("it ends").success());
    }
    let events = events(&path);
    let of = |kind: &str| -> HashSet<(u64, u64)> {
        of_kind(&events, kind).iter().map(|it| (number(&it["pid"]), number(&it["allocator"]))).collect()
    };
    assert_eq!(of_kind(&events, "start").len(), 4);
    assert_eq!((of_kind(&events, "plan").len(), of_kind(&events, "free").len()), (4 * 4 * 20, 4 * 4 * 20));
    assert_eq!((of("plan").len(), of("plan")), (4 * 4 * 20, of("free")));
}

#[test]
fn report_of_a_killed_program_is_complete() {
    let folder = Folder::new("report-killed");
    let path = folder.join("report.jsonl");
    let outcome = expect(program().run_with(&["is_killed"], &[("LASTUSE_REPORT", path.as_os_str())]));
    assert_eq!(outcome.signal, Some(9), "{}", outcome.describe());
    let events = events(&path);
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().expect("a word")).collect();
    assert_eq!(kinds, ["start", "plan", "plan", "free"]);
    let buffer = &events[1]["buffers"][0];
    assert_eq!(buffer["bytes"], 0, "there was not enough memory");
    assert!(number(&buffer["plan_bytes"]) > 1024);
}

#[test]
fn reported_size_of_ggml_alloc_is_its_size() {
    let folder = Folder::new("report-ggml");
    let path = folder.join("report.jsonl");
    let outcome = run(&["several_types", "50"], &[("LASTUSE_REPORT", path.as_os_str())]);
    let sizes: Vec<&str> = outcome.stdout.lines().filter_map(|line| line.strip_prefix("sizes ")).collect();
    let events = events(&path);
    let plans = of_kind(&events, "plan");
    assert_eq!((sizes.len(), plans.len()), (50, 50));
    for (sizes, event) in sizes.into_iter().zip(plans) {
        let sizes: Vec<u64> = sizes.split(' ').skip(1).map(|word| word.parse().expect("a number")).collect();
        let buffers = event["buffers"].as_array().expect("a list");
        assert_eq!(buffers.len(), 3, "an id that repeats a type is not reported");
        assert_eq!(sizes.len(), 2 * buffers.len(), "a pair for each buffer");
        for (&[lastuse, ggml], buffer) in sizes.as_chunks().0.iter().zip(buffers) {
            assert_eq!((number(&buffer["bytes"]), number(&buffer["ggml_alloc_bytes"])), (lastuse, ggml), "{event}");
        }
    }
}

#[test]
fn ggmls_own_allocator_is_reported_too() {
    let lastuse = support::release();
    let program = llama_style::build("recording-off", Package::LlamaCpp, Linked::SharedGgml);
    let folder = Folder::new("report-off");
    for (switch, server) in [("off", "ggml-alloc"), ("on", "lastuse")] {
        for allocator in ["gallocr", "sched"] {
            let path = folder.join(&format!("{switch}-{allocator}.jsonl"));
            let variables = [
                ("LD_PRELOAD", lastuse.shared.as_os_str()),
                ("LASTUSE", OsStr::new(switch)),
                ("LASTUSE_REPORT", path.as_os_str()),
            ];
            let outcome = llama_style::run(&program, &["--allocator", allocator], &variables);
            let events = events(&path);
            assert_eq!((of_kind(&events, "start").len(), &events[0]["server"]), (1, &json!(server)));
            let mut held = BTreeMap::new();
            for event in of_kind(&events, "plan") {
                let buffers = event["buffers"].as_array().expect("a list");
                held.insert(number(&event["allocator"]), buffers.iter().map(|it| number(&it["bytes"])).sum::<u64>());
                assert_eq!(event["plans"].is_null(), switch == "off");
                assert_eq!(buffers[0].get("lower_bound").is_none(), switch == "off");
                assert!(number(&event["nodes"]) > 0);
            }
            assert_eq!(of_kind(&events, "free").len(), held.len());
            let total: u64 = held.values().sum();
            assert_eq!(outcome.value("compute_buffer_bytes"), Some(&*total.to_string()), "{events:?}");
        }
    }
}

#[test]
fn file_that_cannot_be_written_is_reported_once() {
    let path = Path::new("/proc/no/such/report.jsonl");
    let outcome = run(&["two_allocators"], &[("LASTUSE_REPORT", path.as_os_str())]);
    let start = "lastuse 0.1.0: LASTUSE_REPORT has no effect: cannot write to /proc/no/such/report.jsonl: ";
    assert!(outcome.stderr.starts_with(start) && outcome.stderr.lines().count() == 1, "{}", outcome.stderr);
    let outcome = run(&["two_allocators"], &[("LASTUSE_REPORT", OsStr::new("/dev/full"))]);
    let start = "lastuse 0.1.0: no more is written to the file that LASTUSE_REPORT names: No space left on device";
    assert!(outcome.stderr.starts_with(start) && outcome.stderr.lines().count() == 1, "{}", outcome.stderr);
}
