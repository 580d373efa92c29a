//! Each graph is planned by ggml's own allocator and by lastuse in one process: with ggml's rules and ggml's strategy
//! every offset is equal, and the library assigns the offsets of its plan.

mod limits;
mod random_graph;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;

use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{GraphPlan, Rules, TensorId};
use lastuse::placement::{Bytes, Offset};
use lastuse_c_tests::{Allocators, LiveGraph, captured_graphs, graphs_in, read_graph};
use support::expect;

const RANDOM_GRAPHS: u64 = 500;

fn allocators() -> &'static Allocators {
    expect(Allocators::open())
}

fn random(seed: u64) -> Snapshot {
    let text = random_graph::text(seed);
    lastuse_tool::formats::read_graph(text.as_bytes()).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"))
}

/// The offset of each tensor, and the size of the buffer.
type Plan = (Vec<Option<Offset>>, Bytes);

/// Returns the offset of each tensor, views included, in its chunk.
fn offsets(snapshot: &Snapshot, plan: &GraphPlan) -> Vec<Option<Offset>> {
    let graph = &snapshot.graph;
    let offset = |id: TensorId| {
        let (address, _) = plan.placed(graph.root(id))?;
        let view = graph.tensor(id).view.map_or(0, |view| view.offset);
        Some(address.offset + view)
    };
    (0..).take(graph.tensors().len()).map(offset).collect()
}

/// Plans with ggml's rules and ggml's strategy, by lastuse.
fn replayed(snapshot: &Snapshot) -> Plan {
    let plan = snapshot.plan_as_ggml().unwrap_or_else(|error| panic!("{error}"));
    (offsets(snapshot, &plan), plan.buffers[0].placement.size())
}

/// Plans with lastuse's rules and strategies.
fn planned(snapshot: &Snapshot, rules: Rules) -> Plan {
    let plan = snapshot.plan(rules).unwrap_or_else(|error| panic!("{error}"));
    (offsets(snapshot, &plan), plan.buffers[0].placement.size())
}

/// A tensor without bytes may lie anywhere.
fn assert_equal_plans(label: &str, snapshot: &Snapshot, found: &Plan, expected: &Plan) {
    assert_eq!(found.1, expected.1, "{label}: the size of the buffer");
    for (id, info) in snapshot.tensors.iter().enumerate().filter(|(_, info)| info.size > 0) {
        assert_eq!(found.0[id], expected.0[id], "{label}: the offset of tensor {} ({})", info.id, info.name);
    }
}

/// Compares all plans of one graph. Returns the sizes of ggml's buffer and of lastuse's.
fn compare(label: &str, snapshot: &Snapshot, live: &mut LiveGraph) -> (Bytes, Bytes) {
    let (mut upstream, mut lastuse) = (allocators().upstream(), allocators().lastuse());
    let places = upstream.place(live).unwrap_or_else(|| panic!("{label}: ggml refuses the graph"));
    assert_equal_plans(label, snapshot, &(places, upstream.buffer_size()), &replayed(snapshot));
    let places = lastuse.place(live).unwrap_or_else(|| panic!("{label}: lastuse refuses the graph"));
    assert_equal_plans(label, snapshot, &(places, lastuse.buffer_size()), &planned(snapshot, Rules::ALL));
    let mut direct = allocators().lastuse_used_directly();
    let places = direct.place(live).unwrap_or_else(|| panic!("{label}: lastuse refuses the graph"));
    let kept = planned(snapshot, Rules { keep_inputs: true, ..Rules::ALL });
    assert_equal_plans(label, snapshot, &(places, direct.buffer_size()), &kept);
    assert!(direct.buffer_size() <= upstream.buffer_size(), "{label}: with all inputs that ggml leaves intact");
    (upstream.buffer_size(), lastuse.buffer_size())
}

fn live(label: &str, snapshot: &Snapshot) -> LiveGraph {
    LiveGraph::build(allocators(), snapshot).unwrap_or_else(|error| panic!("{label}: {error}"))
}

#[test]
fn random_graphs_get_the_offsets_of_ggml() {
    let mut smaller = 0;
    for seed in 0..RANDOM_GRAPHS {
        let (label, snapshot) = (format!("seed {seed}"), random(seed));
        let (ggml, lastuse) = compare(&label, &snapshot, &mut live(&label, &snapshot));
        assert!(lastuse <= ggml, "{label}: {lastuse} bytes, and ggml takes {ggml}");
        smaller += u64::from(lastuse < ggml);
    }
    // If both were one allocator, no graph would be smaller.
    assert!(smaller > RANDOM_GRAPHS / 10, "lastuse is smaller on {smaller} graphs only");
}

#[test]
fn gaps_between_sources_change_nothing() {
    for seed in 0..RANDOM_GRAPHS / 5 {
        let (label, snapshot) = (format!("seed {seed}"), random(seed));
        let mut live = live(&label, &snapshot);
        live.leave_gaps();
        compare(&label, &snapshot, &mut live);
    }
}

fn compare_file(path: &Path) {
    let (label, snapshot) = (path.display().to_string(), expect(read_graph(path)));
    let (ggml, _) = compare(&label, &snapshot, &mut live(&label, &snapshot));
    assert_eq!(snapshot.buffers[0].ggml_alloc_size, Some(ggml), "{label}: the size that ggml took at the capture");
}

#[test]
fn captured_graphs_get_the_offsets_of_ggml() {
    expect(graphs_in(&captured_graphs())).iter().for_each(|path| compare_file(path));
}

/// Compares all files of the folder that `LASTUSE_GRAPHS` names.
#[test]
#[ignore = "compares the graphs of the folder that LASTUSE_GRAPHS names"]
fn graphs_of_a_folder_get_the_offsets_of_ggml() {
    let folder = std::env::var_os("LASTUSE_GRAPHS").expect("LASTUSE_GRAPHS names a folder");
    let graphs = expect(graphs_in(Path::new(&folder)));
    graphs.iter().for_each(|path| compare_file(path));
    println!("{} graphs compared", graphs.len());
}
