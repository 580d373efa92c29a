//! Unmodified programs run under a guard when both libraries are preloaded, and unguarded without the variable.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::process::Command;

use crate::support;
use lastuse_c_tests::{Linked, Outcome, Program, guard_library};
use lastuse_vendor::Package;

fn preloaded() -> OsString {
    let mut libraries = support::release().shared.into_os_string();
    libraries.push(":");
    libraries.push(support::expect(guard_library()));
    libraries
}

fn program(package: Package, label: &str) -> Program {
    let name = format!("plain_scheduler{label}");
    support::build(&name, "tests/support/plain_scheduler.c", &support::ggml(package), Linked::SharedGgml)
}

fn run(program: &Program, arguments: &[&str], words: &str) -> Outcome {
    let libraries = preloaded();
    let variables = [("LD_PRELOAD", libraries.as_os_str()), ("LASTUSE_VERIFY", OsStr::new(words))];
    support::expect(program.run_with(arguments, &variables))
}

fn unmodified_programs_run_under_guard(package: Package, label: &str) {
    let program = program(package, label);
    let alone = support::passes(&program, &[]);
    for words in ["", "plan", "memory", "weights", "memory,no-custom"] {
        let outcome = run(&program, &[], words);
        assert_eq!((outcome.code, &outcome.stdout), (Some(0), &alone.stdout), "{words}: {}", outcome.describe());
    }
    for words in ["", "plan", "memory,off", "memory,no-custom"] {
        let outcome = run(&program, &["fault"], words);
        assert_eq!(outcome.code, Some(0), "{words}: memory is not watched: {}", outcome.describe());
    }
    for words in ["memory", "weights"] {
        let outcome = run(&program, &["fault"], words);
        assert!(outcome.signal.is_some(), "{words}: {}", outcome.describe());
        for part in ["\"doubled\" (MAP_CUSTOM1)", "outside of its result, in another buffer", "\"weight\" (NONE)"] {
            assert!(outcome.stderr.contains(part), "{words}: {}", outcome.describe());
        }
    }
}

#[test]
fn on_ggml_0_26() {
    unmodified_programs_run_under_guard(Package::LlamaCpp, "");
}

#[test]
fn on_ggml_0_9_5() {
    unmodified_programs_run_under_guard(Package::WhisperCpp, "-0.9.5");
}

/// Runs a program that keeps a graph while its allocator takes other memory, as it is and under guard.
fn memory_that_was_freed_is_named(name: &str, package: Package, flags: &[&str], faults: &[(&str, [&str; 2])]) {
    let ggml = support::ggml(package);
    let program = Program::build(name, &["tests/linking/kept_graphs.c"], &ggml, Linked::SharedGgml, flags);
    let program = support::expect(program);
    for words in ["", "plan", "memory", "weights"] {
        let outcome = run(&program, &["anew"], words);
        assert_eq!(
            (outcome.code, outcome.stdout.as_str()),
            (Some(0), "9\n16\n25\n"),
            "{words}: {}",
            outcome.describe()
        );
    }
    for (mode, parts) in faults {
        let outcome = run(&program, &[mode], "memory");
        assert!(outcome.signal.is_some(), "{mode}: {}", outcome.describe());
        for part in parts {
            assert!(outcome.stderr.contains(part), "{mode}: {part}: {}", outcome.describe());
        }
    }
}

const GRAPH: &str = "\"x\" (NONE) of the graph of 2 nodes that ends with \"out\" (ADD) is in a CPU buffer of ";
const FREED_BY_ALLOCATOR: &str = "which its allocator has freed since";
const WEIGHT: &str = "\"weight\" (NONE) of the graph of 2 nodes that ends with \"out\" (ADD) is in a CPU buffer of ";
const FAULTS: [(&str, [&str; 2]); 3] = [
    ("computed", [GRAPH, FREED_BY_ALLOCATOR]),
    ("set", [GRAPH, FREED_BY_ALLOCATOR]),
    ("weights", [WEIGHT, "which the program has freed since"]),
];

#[test]
fn memory_that_was_freed_is_named_on_ggml_0_26() {
    memory_that_was_freed_is_named("kept_graphs", Package::LlamaCpp, &[], &FAULTS);
}

#[test]
fn memory_that_was_freed_is_named_on_ggml_0_9_5() {
    memory_that_was_freed_is_named("kept_graphs-0.9.5", Package::WhisperCpp, &[], &FAULTS);
}

/// It reads and writes several tensors with one call.
#[test]
fn memory_that_was_freed_is_named_on_ggml_0_28() {
    let faults = [FAULTS[0], FAULTS[1], FAULTS[2], ("batch", [GRAPH, FREED_BY_ALLOCATOR])];
    memory_that_was_freed_is_named("kept_graphs-0.28", Package::LlamaCpp4, &["-DHAS_BATCHES"], &faults);
}

/// The hash and the bytes of each line.
/// Returns the hash of the results, and the bytes of the largest compute buffer, of each line.
fn hashes_and_bytes(outcome: &Outcome) -> Vec<(String, f64)> {
    assert_eq!(outcome.code, Some(0), "{}", outcome.describe());
    let words = outcome.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let bytes = |words: &[&str]| words.iter().map(|word| word.parse::<f64>().expect("bytes")).fold(0.0, f64::max);
    words.map(|words| (words[1].to_owned(), bytes(&words[2..]))).collect()
}

/// Graphs of programs that know nothing of lastuse are tiled before their scheduler gets them: the same bits in fewer bytes.
fn graphs_of_a_scheduler_are_tiled(package: Package, label: &str, backends: u32, words: &[&str]) {
    let name = format!("tiled_scheduler{label}");
    let program = support::build(&name, TILED, &support::ggml(package), Linked::SharedGgml);
    assert_tiled(&program, &program, Some(&preloaded()), backends, words);
}

/// The source of a program on a scheduler.
const TILED: &str = "tests/linking/tiled_scheduler.c";

/// The calls of a program on a static ggml arrive at lastuse by the linker's `--wrap`.
#[test]
fn graphs_of_a_static_program_are_tiled() {
    const FUNCTIONS: [&str; 8] =
        ["new", "free", "reset", "reserve", "alloc_graph", "graph_compute", "graph_compute_async", "set_eval_callback"];
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let plain = support::build("tiled_scheduler-static", TILED, &ggml, Linked::Ggml);
    let wrapped: Vec<String> = FUNCTIONS.iter().map(|name| format!("-Wl,--wrap=ggml_backend_sched_{name}")).collect();
    let flags: Vec<&str> = wrapped.iter().map(String::as_str).collect();
    let sources = [TILED, "../packaging/link/schedulers.c"];
    let linked = Program::build("tiled_scheduler-wrapped", &sources, &ggml, Linked::LastuseArchive(&lastuse), &flags);
    let linked = support::expect(linked);
    for backends in [1, 2] {
        assert_tiled(&plain, &linked, None, backends, &[]);
    }
}

/// A program that is linked with the guard, before lastuse and a shared ggml.
#[test]
fn graphs_of_a_program_linked_with_the_guard_are_tiled() {
    let (ggml, lastuse) = (support::ggml(Package::LlamaCpp), support::release());
    let guard = support::expect(guard_library());
    let folder = guard.parent().expect("a folder").display().to_string();
    let flags = ["-Wl,--no-as-needed", &format!("-L{folder}"), &format!("-Wl,-rpath,{folder}"), "-llastuse_guard"];
    let plain = support::build("tiled_scheduler-unlinked", TILED, &ggml, Linked::SharedGgml);
    let linked = Program::build("tiled_scheduler-guarded", &[TILED], &ggml, Linked::LastuseShared(&lastuse), &flags);
    assert_tiled(&plain, &support::expect(linked), None, 2, &[]);
}

fn assert_tiled(program: &Program, with_lastuse: &Program, libraries: Option<&OsStr>, backends: u32, words: &[&str]) {
    const BUDGET: f64 = 262_144.0;
    const SEEDS: &str = "20";
    let count = backends.to_string();
    let arguments = [&[SEEDS, &count], words].concat();
    let given = hashes_and_bytes(&support::passes(program, &arguments));
    let with = |name, value: &str| {
        let preloaded = libraries.map(|libraries| ("LD_PRELOAD", libraries));
        let variables: Vec<_> = preloaded.into_iter().chain([(name, OsStr::new(value))]).collect();
        support::expect(with_lastuse.run_with(&arguments, &variables))
    };
    let whole = hashes_and_bytes(&with("LASTUSE_BUDGET", "off"));
    for (name, value) in [("LASTUSE_BUDGET", "256K"), ("LASTUSE_REORDER", "on")] {
        let outcome = with(name, value);
        let changed = hashes_and_bytes(&outcome);
        let hashes = |lines: &[(String, f64)]| lines.iter().map(|(hash, _)| hash.clone()).collect::<Vec<_>>();
        assert_eq!(hashes(&changed), hashes(&given), "{name}");
        let larger = whole.iter().zip(&changed).filter(|((_, whole), (_, changed))| changed > whole).count();
        assert_eq!(larger, 0, "{name}: {whole:?} {changed:?}");
        let bytes = |lines: &[(String, f64)]| lines.iter().map(|(_, bytes)| bytes).sum::<f64>();
        // Of two backends, neither is to have what the other one has; in a pipeline, most are copies.
        let limit = match (name, backends) {
            ("LASTUSE_BUDGET", 1) => 0.75,
            ("LASTUSE_BUDGET", _) if words.is_empty() => 0.9,
            _ => 1.0,
        };
        assert!(bytes(&changed) <= limit * bytes(&whole), "{name}: {changed:?} of {whole:?}");
        assert!(bytes(&changed) < bytes(&whole), "{name} has no effect: {changed:?}");
        let has_tiles = !outcome.stderr.contains("tiles on the device: 0");
        assert_eq!(has_tiles, name == "LASTUSE_BUDGET" && words == ["device"], "{}", outcome.describe());
        if name == "LASTUSE_BUDGET" && words.is_empty() {
            let fit = changed.iter().zip(&whole).filter(|((_, bytes), (_, whole))| bytes <= &BUDGET && whole > &BUDGET);
            assert!(fit.count() > 2 / backends as usize, "{whole:?} {changed:?}");
        }
    }
}

#[test]
fn graphs_of_two_backends_are_tiled_on_ggml_0_26() {
    graphs_of_a_scheduler_are_tiled(Package::LlamaCpp, "-two", 2, &[]);
}

#[test]
fn graphs_of_a_pipeline_are_tiled() {
    graphs_of_a_scheduler_are_tiled(Package::LlamaCpp, "-pipeline", 2, &["pipeline"]);
}

#[test]
fn graphs_of_a_cpu_beside_a_device_are_tiled() {
    graphs_of_a_scheduler_are_tiled(Package::LlamaCpp, "-device", 2, &["device"]);
}

#[test]
fn graphs_of_two_backends_are_tiled_on_ggml_0_9_5() {
    graphs_of_a_scheduler_are_tiled(Package::WhisperCpp, "-two-0.9.5", 2, &[]);
}

#[test]
fn graphs_of_a_scheduler_are_tiled_on_ggml_0_26() {
    graphs_of_a_scheduler_are_tiled(Package::LlamaCpp, "", 1, &[]);
}

#[test]
fn graphs_of_a_scheduler_are_tiled_on_ggml_0_9_5() {
    graphs_of_a_scheduler_are_tiled(Package::WhisperCpp, "-0.9.5", 1, &[]);
}

#[test]
fn without_lastuse_it_names_what_is_missing() {
    let guard = support::expect(guard_library());
    let program = program(Package::LlamaCpp, "");
    let outcome = support::expect(program.run_with(&[], &[("LD_PRELOAD", guard.as_os_str())]));
    assert!(
        outcome.signal.is_some() && outcome.stderr.contains("preload liblastuse.so before"),
        "{}",
        outcome.describe()
    );
}

#[test]
fn exports_only_the_functions_that_it_wraps() {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(support::expect(guard_library())).output();
    let text = String::from_utf8_lossy(&output.expect("nm runs").stdout).into_owned();
    let names: BTreeSet<&str> = text.lines().filter_map(|line| line.split_whitespace().next_back()).collect();
    let expected = [
        "ggml_backend_alloc_buffer",
        "ggml_backend_buffer_free",
        "ggml_backend_buft_alloc_buffer",
        "ggml_backend_cpu_buffer_from_ptr",
        "ggml_backend_dev_buffer_from_host_ptr",
        "ggml_backend_graph_compute",
        "ggml_backend_graph_compute_async",
        "ggml_backend_sched_alloc_graph",
        "ggml_backend_sched_free",
        "ggml_backend_sched_graph_compute",
        "ggml_backend_sched_graph_compute_async",
        "ggml_backend_sched_new",
        "ggml_backend_sched_reserve",
        "ggml_backend_sched_reserve_size",
        "ggml_backend_sched_reset",
        "ggml_backend_sched_set_eval_callback",
        "ggml_backend_tensor_copy",
        "ggml_backend_tensor_copy_async",
        "ggml_backend_tensor_copy_n",
        "ggml_backend_tensor_get",
        "ggml_backend_tensor_get_2d",
        "ggml_backend_tensor_get_2d_async",
        "ggml_backend_tensor_get_async",
        "ggml_backend_tensor_get_n",
        "ggml_backend_tensor_memset",
        "ggml_backend_tensor_set",
        "ggml_backend_tensor_set_2d",
        "ggml_backend_tensor_set_2d_async",
        "ggml_backend_tensor_set_async",
        "ggml_backend_tensor_set_n",
    ];
    assert_eq!(names, BTreeSet::from(expected));
}

/// Each wrapped function calls the ggml of its caller or of its object.
#[test]
fn two_ggmls_in_one_process_keep_apart() {
    let host = support::build("loads", "tests/support/loads.c", &support::ggml(Package::LlamaCpp), Linked::Ggml);
    let plugin = |package: Package| {
        let ggml = support::ggml(package);
        let archive = |part: &str| ggml.libraries.join(format!("lib{part}.a")).display().to_string();
        let flags = [&archive("ggml-cpu"), &archive("ggml-base"), "-lm"];
        let name = format!("libwrapped-functions-{}.so", ggml.version);
        let library = Program::build_shared(&name, &["tests/linking/wrapped_functions.c"], &ggml, &flags);
        support::expect(library).display().to_string()
    };
    let [new, old] = [Package::LlamaCpp, Package::WhisperCpp].map(plugin);
    let folder = std::env::temp_dir().join(format!("lastuse-two-ggmls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("it can be made");
    let accounting = folder.join("accounting.json");
    let preload = preloaded();
    for order in [[&new, &old], [&old, &new]] {
        let alone = support::passes(&host, &[order[0], order[1]]);
        let settings: [&[(&str, &OsStr)]; 4] = [
            &[],
            &[("LASTUSE_VERIFY", OsStr::new("memory"))],
            &[("LASTUSE_DUMP", OsStr::new("none")), ("LASTUSE_DUMP_DIR", folder.as_os_str())],
            &[("LASTUSE_ACCOUNTING", accounting.as_os_str())],
        ];
        for variables in settings {
            let variables = [&[("LD_PRELOAD", preload.as_os_str())], variables].concat();
            let outcome = support::expect(host.run_with(&[order[0], order[1]], &variables));
            assert_eq!(outcome.code, Some(0), "{variables:?}: {}", outcome.describe());
            let without_state = |text: &str| text.replace("enabled=1\nerror=\n", "");
            assert_eq!(without_state(&outcome.stdout), alone.stdout, "{variables:?}: {}", outcome.describe());
        }
    }
    let _ = std::fs::remove_dir_all(folder);
}
