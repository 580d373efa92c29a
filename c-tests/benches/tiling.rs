//! The time that the search for what to compute in tiles takes, on captured graphs.
//!
//! `cargo bench -p lastuse-c-tests --bench tiling`; a part of a name, as in `-- unet-512`, selects benchmarks. Each
//! graph is first tiled once for each budget, which prints its nodes and the bytes before and after.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion};
use lastuse::graph::Rules;
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::tiling::{TiledGraph, TilingLimits};
use lastuse::placement::{Bytes, Effort};
use lastuse_c_tests::{captured_graphs, read_graph};

/// Graphs, and budgets in hundredths of their plans that can be met.
const MEASURED: &[(&str, &[Bytes])] = &[
    ("noflash-8k-llama", &[50, 13]),
    ("sd-sd1-unet-512", &[50, 22]),
    ("sd-sd1-unet-1024", &[50, 15]),
    ("sd-sdxl-unet-1024", &[50, 20]),
    ("sd-vae-decoder-512", &[60, 40]),
];

/// A budget that cannot be met, so that the smallest graph is searched for.
const UNMEETABLE: Bytes = 0;

fn main() {
    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    for &(name, tiles) in MEASURED {
        let path = captured_graphs().join(format!("{name}.jsonl.gz"));
        let graph = read_graph(&path).unwrap_or_else(|error| panic!("{error}"));
        let whole = tiled(&mut graph.clone(), Bytes::MAX).before;
        let mut group = criterion.benchmark_group(name);
        for budget in tiles.iter().map(|tile| whole * tile / 100).chain([UNMEETABLE]) {
            let mut is_printed = false;
            let label = if budget == UNMEETABLE { "smallest".to_owned() } else { budget.to_string() };
            group.bench_function(label, |bencher| {
                if !std::mem::replace(&mut is_printed, true) {
                    print(name, budget, &graph);
                }
                bencher.iter_batched(
                    || graph.clone(),
                    |mut graph| (black_box(tiled(&mut graph, budget)), graph),
                    BatchSize::PerIteration,
                );
            });
        }
        group.finish();
    }
    criterion.final_summary();
}

/// Tiles a graph for a budget.
fn tiled(graph: &mut Snapshot, budget: Bytes) -> TiledGraph {
    let buffers = graph.buffers(Rules::ALL, Effort::default());
    let found = graph.tile(&buffers, TilingLimits::of(budget), &mut |_| true);
    found.unwrap_or_else(|error| panic!("{error}"))
}

fn print(name: &str, budget: Bytes, graph: &Snapshot) {
    let found = tiled(&mut graph.clone(), budget);
    println!(
        "{name}: {} nodes, {} bytes; {budget} bytes asked for: {} bytes, {} tilings, {} nodes more",
        graph.graph.nodes().len(),
        found.before,
        found.after,
        found.tiled.len(),
        found.added_nodes()
    );
}
