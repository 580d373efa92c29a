//! The time that `ggml_gallocr_reserve` and `ggml_gallocr_alloc_graph` take on captured graphs, with ggml's own
//! allocator beside lastuse in the same process.
//!
//! `cargo bench -p lastuse-c-tests --bench allocator`; graphs of a folder named by `LASTUSE_GRAPHS` come in addition.

use std::fs::File;
use std::hint::black_box;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use criterion::Criterion;
use lastuse::graph::snapshot::Snapshot;
use lastuse_c_tests::{Allocators, Gallocr, LiveGraph, folder};

/// What the names of the larger graphs in `LASTUSE_GRAPHS` start with.
const LARGE: &[&str] = &["deep48", "sd-"];

/// Makes an allocator.
type New = fn(&Allocators) -> Gallocr;

/// Both, by the name that they are reported under.
const KINDS: [(&str, New); 2] = [("upstream", Allocators::upstream), ("lastuse", Allocators::lastuse)];

fn main() {
    let allocators = Allocators::open().unwrap_or_else(|error| panic!("{error}"));
    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    for path in graphs() {
        let mut graph = build(allocators, &path);
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        plan(&mut criterion, allocators, &name, &mut graph);
        replan(&mut criterion, allocators, &name, &mut graph);
        alloc_graph(&mut criterion, allocators, &name, &mut graph);
    }
    criterion.final_summary();
}

/// Planning a graph that no plan is remembered for, when the buffer is there.
fn plan(criterion: &mut Criterion, allocators: &Allocators, name: &str, graph: &mut LiveGraph) {
    let mut group = criterion.benchmark_group(format!("plan/{name}"));
    for (kind, new) in KINDS {
        let mut allocator = new(allocators);
        graph.reset();
        assert!(allocator.reserve(graph), "{name}: {kind} refuses the graph");
        group.bench_function(kind, |bencher| {
            bencher.iter_custom(|count| (0..count).map(|_| time_of_plan(&mut allocator, graph)).sum());
        });
    }
    group.finish();
}

fn time_of_plan(allocator: &mut Gallocr, graph: &mut LiveGraph) -> Duration {
    graph.make_new();
    let start = Instant::now();
    let done = black_box(allocator.reserve(graph));
    let time = start.elapsed();
    assert!(done, "the graph is refused");
    time
}

/// Planning a graph again that was planned before, as where prompts and tokens alternate.
fn replan(criterion: &mut Criterion, allocators: &Allocators, name: &str, graph: &mut LiveGraph) {
    let mut group = criterion.benchmark_group(format!("replan/{name}"));
    for (kind, new) in KINDS {
        let mut allocator = new(allocators);
        graph.reset();
        assert!(allocator.reserve(graph), "{name}: {kind} refuses the graph");
        group.bench_function(kind, |bencher| bencher.iter(|| black_box(allocator.reserve(graph))));
    }
    group.finish();
}

/// Giving memory to a graph that fits the plan, as a program does for every token.
fn alloc_graph(criterion: &mut Criterion, allocators: &Allocators, name: &str, graph: &mut LiveGraph) {
    let mut group = criterion.benchmark_group(format!("alloc_graph/{name}"));
    for (kind, new) in KINDS {
        let mut allocator = new(allocators);
        graph.reset();
        assert!(allocator.reserve(graph), "{name}: {kind} refuses the graph");
        group.bench_function(kind, |bencher| {
            bencher.iter_custom(|count| (0..count).map(|_| time_of_alloc_graph(&mut allocator, graph)).sum());
        });
    }
    group.finish();
}

/// Only the call itself is timed: programs come with a graph that has no memory yet.
fn time_of_alloc_graph(allocator: &mut Gallocr, graph: &mut LiveGraph) -> Duration {
    graph.reset();
    let start = Instant::now();
    let done = black_box(allocator.allocate(graph));
    let time = start.elapsed();
    assert!(done, "the reserved graph is refused");
    time
}

/// Our own captures, and the large ones of the folder that the variable names.
fn graphs() -> Vec<PathBuf> {
    let mut graphs = files(&folder().join("graphs"));
    if let Some(folder) = std::env::var_os("LASTUSE_GRAPHS") {
        let is_large = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            LARGE.iter().any(|start| name.starts_with(start))
        };
        graphs.extend(files(Path::new(&folder)).into_iter().filter(is_large));
    }
    graphs
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.flatten().map(|entry| entry.path());
    let mut graphs: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|it| it == "jsonl")).collect();
    graphs.sort();
    graphs
}

fn build(allocators: &'static Allocators, path: &Path) -> LiveGraph {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let snapshot = Snapshot::read(BufReader::new(file)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    LiveGraph::build(allocators, &snapshot).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
