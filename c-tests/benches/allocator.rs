//! The time that `ggml_gallocr_reserve` and `ggml_gallocr_alloc_graph` take on captured graphs, with ggml's own
//! allocator and lastuse in the same process, and the time of `lastuse_graph_measure`.
//!
//! `cargo bench -p lastuse-c-tests --bench allocator`; graphs of a folder named by `LASTUSE_GRAPHS` come in addition.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use criterion::Criterion;
use lastuse_c_tests::{Allocators, Gallocr, LiveGraph, captured_graphs, graph_name, graphs_in, read_graph};

/// Prefixes of the measured graphs: small ones of one program, and those of 500 to 6,000 nodes.
const MEASURED: &[&str] = &["llama-", "deep48", "sd-"];

/// Makes an allocator.
type New = fn(&Allocators) -> Gallocr;

/// Both allocators, by the name in the report.
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
        let (name, mut graph) = (graph_name(&path), build(allocators, &path));
        plan(&mut criterion, allocators, &name, &mut graph);
        replan(&mut criterion, allocators, &name, &mut graph);
        alloc_graph(&mut criterion, allocators, &name, &mut graph);
        measure(&mut criterion, allocators, &name, &mut graph);
        recycle(&mut criterion, allocators, &name, &mut graph);
    }
    criterion.final_summary();
}

/// Times planning a graph without a cached plan, when the buffer is already allocated.
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

/// Times planning a graph that was planned before, as when prompts and tokens alternate.
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

/// Times the allocation of a graph that fits the plan, as a program does for every token.
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

/// Times measuring a graph without an allocator.
fn measure(criterion: &mut Criterion, allocators: &Allocators, name: &str, graph: &mut LiveGraph) {
    let mut group = criterion.benchmark_group(format!("measure/{name}"));
    graph.reset();
    group.bench_function("lastuse", |bencher| bencher.iter(|| black_box(allocators.measure(graph)).expect("measured")));
    group.finish();
}

/// Times an allocator for one graph, from its creation to its end: each page of its memory is written once, as a program that
/// computes the graph does. With "recycled", its buffer waits for the next one.
fn recycle(criterion: &mut Criterion, allocators: &Allocators, name: &str, graph: &mut LiveGraph) {
    let mut group = criterion.benchmark_group(format!("recycle/{name}"));
    let [upstream, lastuse] = KINDS;
    for (kind, new, limit) in
        [(upstream.0, upstream.1, c"off"), (lastuse.0, lastuse.1, c"off"), ("recycled", lastuse.1, c"4GiB,60")]
    {
        allocators.recycle(limit);
        let mut once = || {
            graph.reset();
            let start = Instant::now();
            let mut allocator = new(allocators);
            assert!(allocator.allocate(graph), "{name}: {kind} refuses the graph");
            graph.touch_pages(allocator.buffer_size());
            drop(allocator);
            start.elapsed()
        };
        group.bench_function(kind, |bencher| bencher.iter_custom(|count| (0..count).map(|_| once()).sum()));
        allocators.recycle(c"off");
    }
    group.finish();
}

/// Returns the graphs to measure: committed ones, and those of the folder that the variable names.
fn graphs() -> Vec<PathBuf> {
    let extra = std::env::var_os("LASTUSE_GRAPHS").map(PathBuf::from);
    let folders = [captured_graphs()].into_iter().chain(extra);
    let graphs = folders.flat_map(|folder| graphs_in(&folder).unwrap_or_else(|error| panic!("{error}")));
    graphs.filter(|path| MEASURED.iter().any(|start| graph_name(path).starts_with(start))).collect()
}

fn build(allocators: &'static Allocators, path: &Path) -> LiveGraph {
    let snapshot = read_graph(path).unwrap_or_else(|error| panic!("{error}"));
    LiveGraph::build(allocators, &snapshot).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
