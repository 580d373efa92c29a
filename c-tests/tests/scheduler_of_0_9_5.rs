//! The rule of ggml's scheduler compared with the real one, of ggml 0.9.5: see `scheduler`. A process has one ggml.

#[path = "scheduler/compare.rs"]
mod compare;
#[path = "scheduler/problems.rs"]
mod problems;
#[path = "parity/random_graph.rs"]
mod random_graph;
mod support;

use lastuse::offload::rules::SchedulerVersion;
use lastuse_c_tests::{captured_graphs, graph_name, graphs_in, read_graph};
use lastuse_vendor::Package;

use compare::{Compared, Comparison, chain, random_snapshot};
use support::expect;

const COMPARISON: Comparison = Comparison { package: Package::WhisperCpp, version: SchedulerVersion::GGML_0_9_5 };

const RANDOM_GRAPHS: u64 = 400;

#[test]
fn random_graphs_are_scheduled_as_ggml_does() {
    let mut found = Compared::default();
    for seed in 0..RANDOM_GRAPHS {
        found.add(COMPARISON.compare_random(&format!("seed {seed}"), &random_snapshot(seed), seed));
    }
    found.assert_covers(RANDOM_GRAPHS);
}

#[test]
fn captured_graphs_are_scheduled_as_ggml_does() {
    let mut graphs = expect(graphs_in(&captured_graphs()));
    graphs.retain(|path| graph_name(path).starts_with("whisper-"));
    assert!(graphs.len() > 8, "{graphs:?}");
    for (path, seed) in graphs.iter().zip(0..) {
        let snapshot = expect(read_graph(path));
        COMPARISON.compare_layers(&graph_name(path), &snapshot, seed);
    }
}

#[test]
fn splits_have_at_most_30_inputs() {
    // Half of the weights are on the GPU: the only one.
    let found = COMPARISON.compare_layers("chain", &chain(100), 4);
    assert_eq!((found.splits, found.copied), (4, 100));
}
