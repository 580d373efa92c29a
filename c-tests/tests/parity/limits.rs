//! Buffers that must not be larger than a part of the plan: lastuse takes no more of them than ggml's own allocator,
//! and no more bytes.

use std::ffi::CStr;
use std::path::Path;

use lastuse::graph::Rules;
use lastuse::graph::snapshot::Snapshot;
use lastuse::placement::Bytes;
use lastuse_c_tests::{Gallocr, LiveGraph};

use lastuse_c_tests::{captured_graphs, graph_name, graphs_in, read_graph};

use super::support::expect;
use super::{RANDOM_GRAPHS, allocators, live, planned, random};

/// The limit is the plan without a limit, divided by these.
const PARTS: [Bytes; 3] = [2, 4, 8];

/// How many buffers an allocator takes, and their bytes together.
type Taken = (usize, Bytes);

fn taken(label: &str, mut allocator: Gallocr, live: &mut LiveGraph) -> Taken {
    live.reset();
    assert!(allocator.reserve(live), "{label}: the graph is refused");
    allocator.chunks()
}

/// Bytes of ggml and of lastuse with these rules, under a limit.
fn taken_by_both(label: &str, snapshot: &Snapshot, live: &mut LiveGraph, limit: Bytes, rules: &CStr) -> (Taken, Taken) {
    let alignment = snapshot.buffers[0].alignment;
    let ggml = taken(label, allocators().upstream_limited(alignment, limit), live);
    (ggml, taken(label, allocators().lastuse_limited(alignment, limit, rules), live))
}

/// Cases that are worse than in ggml, in words, and the number of cases that are better.
#[derive(Default)]
struct Comparison {
    worse: Vec<String>,
    better: usize,
    several_chunks: usize,
}

impl Comparison {
    fn add(&mut self, label: &str, snapshot: &Snapshot) {
        let mut live = live(label, snapshot);
        let (_, size) = planned(snapshot, Rules::ALL);
        for parts in PARTS {
            let limit = (size / parts).next_multiple_of(snapshot.buffers[0].alignment);
            if limit == 0 {
                continue;
            }
            for rules in [c"ggml", c"all"] {
                let (ggml, lastuse) = taken_by_both(label, snapshot, &mut live, limit, rules);
                if lastuse.0 > ggml.0 || lastuse.1 > ggml.1 {
                    let worse =
                        format!("{label}, limit {limit}, {rules:?}: {lastuse:?} (chunks, bytes), and ggml {ggml:?}");
                    self.worse.push(worse);
                }
                self.better += usize::from(lastuse.0 < ggml.0 || lastuse.1 < ggml.1);
                self.several_chunks += usize::from(ggml.0 > 1);
            }
        }
    }

    fn add_folder(&mut self, folder: &Path) -> usize {
        let graphs = expect(graphs_in(folder));
        graphs.iter().for_each(|path| self.add(&graph_name(path), &expect(read_graph(path))));
        graphs.len()
    }

    fn assert_never_worse(&self) {
        assert!(self.worse.is_empty(), "{} are worse:\n{}", self.worse.len(), self.worse.join("\n"));
        // Limits without effect would test nothing.
        assert!(self.several_chunks > 0, "no graph needs several buffers");
    }
}

#[test]
fn random_graphs_take_no_more_buffers_than_in_ggml() {
    let mut comparison = Comparison::default();
    (0..RANDOM_GRAPHS / 2).for_each(|seed| comparison.add(&format!("seed {seed}"), &random(seed)));
    comparison.assert_never_worse();
    assert!(comparison.better > 0, "lastuse is never better");
}

#[test]
fn captured_graphs_take_no_more_buffers_than_in_ggml() {
    let mut comparison = Comparison::default();
    comparison.add_folder(&captured_graphs());
    comparison.assert_never_worse();
}

/// Compares all files of the folder that `LASTUSE_GRAPHS` names.
#[test]
#[ignore = "compares the graphs of the folder that LASTUSE_GRAPHS names"]
fn graphs_of_a_folder_take_no_more_buffers_than_in_ggml() {
    let folder = std::env::var_os("LASTUSE_GRAPHS").expect("LASTUSE_GRAPHS names a folder");
    let mut comparison = Comparison::default();
    let count = comparison.add_folder(Path::new(&folder));
    println!("{count} graphs, {} limits each: {} better", PARTS.len(), comparison.better);
    comparison.assert_never_worse();
}
