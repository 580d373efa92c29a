//! The rule of ggml's scheduler compared with the real one, of ggml 0.26: equal backends, splits and copies, equal
//! lists for the allocator, and equal bytes, by ggml's own allocator and by lastuse.

mod compare;
mod problems;
#[path = "../parity/random_graph.rs"]
mod random_graph;
#[path = "../support/mod.rs"]
mod support;

use lastuse::offload::rules::SchedulerVersion;
use lastuse_c_tests::{captured_graphs, graph_name, graphs_in, read_graph};
use lastuse_vendor::Package;

use compare::{Compared, Comparison, chain, random_snapshot};
use support::expect;

const COMPARISON: Comparison = Comparison { package: Package::LlamaCpp, version: SchedulerVersion::GGML_0_26 };

const RANDOM_GRAPHS: u64 = 600;

#[test]
fn random_graphs_are_scheduled_as_ggml_does() {
    let mut found = Compared::default();
    for seed in 0..RANDOM_GRAPHS {
        found.add(COMPARISON.compare_random(&format!("seed {seed}"), &random_snapshot(seed), seed));
    }
    found.assert_covers(RANDOM_GRAPHS);
}

/// Of placements with one GPU and with two, with weights offloaded and without: some in which ggml's own allocator needs
/// more, since empty tensors split its free memory.
const PLACEMENTS: [u64; 3] = [1, 9, 12];

#[test]
fn captured_graphs_are_scheduled_as_ggml_does() {
    for path in expect(graphs_in(&captured_graphs())) {
        let snapshot = expect(read_graph(&path));
        for seed in PLACEMENTS {
            COMPARISON.compare_layers(&format!("{} {seed}", graph_name(&path)), &snapshot, seed);
        }
    }
}

#[test]
fn splits_have_any_number_of_inputs() {
    // Half of the weights are on the GPU: the only one.
    let found = COMPARISON.compare_layers("chain", &chain(100), 4);
    assert_eq!((found.splits, found.copied), (1, 100));
}
