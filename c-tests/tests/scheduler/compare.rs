//! One graph through the real scheduler and through the rule.

use lastuse_tool::formats::read_graph;
use std::collections::HashMap;

use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{Op, TensorId};
use lastuse::offload::rules::{
    BufferTypeIndex, OffloadError, Origin, PlacedGraph, Schedule, ScheduledGraph, SchedulerVersion, captured_sizes,
    compute_buffers, ggml_compute_bytes, schedule,
};
use lastuse::placement::Bytes;
use lastuse_c_tests::{Allocators, LiveGraph, RealSchedule, RealScheduler, SeenTensor};
use lastuse_vendor::Package;
use serde_json::json;

use super::problems::{Problem, TableBackends};
use super::random_graph;
use super::support::expect;

/// What `dummy_row_padding` adds.
const ROW_PADDING: Bytes = 96;

/// Bytes of a name that ggml keeps.
const MAX_NAME: usize = 63;

/// A ggml, and the rule of its scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    pub package: Package,
    pub version: SchedulerVersion,
}

/// The outcome of some comparisons.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compared {
    /// Graphs that both scheduled.
    pub scheduled: u64,
    /// Graphs that ggml would abort on.
    pub refused: u64,
    /// Splits and copied inputs of all graphs.
    pub splits: usize,
    pub copied: usize,
    /// Graphs in which lastuse takes fewer bytes.
    pub smaller: u64,
}

impl Compared {
    pub fn add(&mut self, other: Self) {
        self.scheduled += other.scheduled;
        self.refused += other.refused;
        self.splits += other.splits;
        self.copied += other.copied;
        self.smaller += other.smaller;
    }

    /// Most graphs must be scheduled, and in several splits.
    pub fn assert_covers(&self, graphs: u64) {
        println!("{self:?}");
        assert_eq!(self.scheduled + self.refused, graphs);
        assert!(self.scheduled > graphs / 2, "{self:?}");
        assert!(self.splits as u64 > 3 * graphs && self.copied as u64 > 3 * graphs, "{self:?}");
        assert!(self.refused > 0 && self.smaller > graphs / 20, "{self:?}");
    }
}

/// A random graph of operations that ggml 0.9.5 and 0.26 treat alike: only the latter computes CLAMP in place.
pub fn random_snapshot(seed: u64) -> Snapshot {
    let text = random_graph::text(seed).replace("\"CLAMP\"", "\"SCALE\"");
    read_graph(text.as_bytes()).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"))
}

/// A chain of `inputs` additions after one product with a weight; the other operands are inputs of the program.
pub fn chain(inputs: usize) -> Snapshot {
    let line = |id: usize, kind: &str, op: &str, flags: u32, external: bool, src: &[usize]| {
        let (ne, nb, inplace) = ([16, 16, 1, 1], [4, 64, 1024, 1024], op == "ADD");
        json!({
            "id": id, "kind": kind, "op": op, "name": format!("t{id}"), "type": "f32", "ne": ne, "nb": nb,
            "nbytes": 1024, "size": 1024, "buffer": 0, "flags": flags, "inplace": inplace, "external": external,
            "src": src,
        })
    };
    let buffers = json!([{"name": "CPU", "alignment": 32, "max_size": null}]);
    let header = json!({
        "format": "lastuse-graph", "version": 1, "label": "chain", "n_leafs": inputs + 1, "n_nodes": inputs,
        "buffers": buffers,
    });
    let mut lines = vec![header, line(0, "leaf", "NONE", 0, true, &[])];
    lines.extend((1..=inputs).map(|id| line(id, "leaf", "NONE", 1, false, &[])));
    lines.push(line(inputs + 1, "node", "MUL_MAT", 16, false, &[0, 1]));
    lines
        .extend((2..=inputs).map(|input| line(inputs + input, "node", "ADD", 16, false, &[inputs + input - 1, input])));
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    read_graph(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

impl Comparison {
    pub fn compare_random(self, label: &str, snapshot: &Snapshot, seed: u64) -> Compared {
        self.compare(label, snapshot, &Problem::random(snapshot, seed, self.version))
    }

    pub fn compare_layers(self, label: &str, snapshot: &Snapshot, seed: u64) -> Compared {
        let found = self.compare(label, snapshot, &Problem::by_layer(snapshot, seed, self.version));
        assert_eq!(found.scheduled, 1, "{label}: the rule schedules it");
        found
    }

    fn compare(self, label: &str, snapshot: &Snapshot, problem: &Problem) -> Compared {
        let Problem { backends, memory, assigned, tables, options } = problem;
        let placed = PlacedGraph { snapshot, memory, assigned };
        let keeps = self.version == SchedulerVersion::GGML_0_26;
        let capabilities = TableBackends { tables, snapshot, types: backends.buffer_types.len(), keeps };
        let ours = match schedule(placed, backends, &capabilities, *options) {
            Ok(schedule) => schedule,
            Err(error) => {
                assert!(is_abort(&error), "{label}: {error}");
                return Compared { refused: 1, ..Compared::default() };
            }
        };
        let allocators = expect(Allocators::open_with_fake_backends(self.package));
        let mut live = LiveGraph::build(allocators, snapshot).unwrap_or_else(|error| panic!("{label}: {error}"));
        let mut scheduler = RealScheduler::new(allocators, backends, tables, options, &live);
        let real = scheduler.schedule(placed, &mut live);
        let real = real.unwrap_or_else(|| panic!("{label}: ggml does not schedule the graph"));
        assert_equal_decisions(label, snapshot, &ours, &real);
        let (ids, addresses) = (HashMap::new(), HashMap::new());
        Lists { label, problem, snapshot, ours: &ours.scheduled, ids, addresses }.assert_equal(&real);
        let smaller = assert_equal_bytes(label, snapshot, problem, &ours.scheduled, &real);
        let (splits, copied) = (ours.splits.len(), ours.copied_inputs());
        Compared { scheduled: 1, splits, copied, smaller: u64::from(smaller), ..Compared::default() }
    }
}

/// Returns `true` for errors that correspond to an abort of ggml.
fn is_abort(error: &OffloadError) -> bool {
    matches!(
        error,
        OffloadError::CannotRunInPlace { .. }
            | OffloadError::Unsupported { .. }
            | OffloadError::Unassigned { .. }
            | OffloadError::TooManyInputs { .. }
    )
}

fn assert_equal_decisions(label: &str, snapshot: &Snapshot, ours: &Schedule, real: &RealSchedule) {
    for (id, (own, real)) in (0..).zip(ours.executes.iter().zip(&real.backends)) {
        assert_eq!(own, real, "{label}: the backend of {}", snapshot.tensor(id));
    }
    assert_eq!(ours.splits.len(), real.splits, "{label}: splits");
}

/// The lists of the allocator, tensor by tensor.
struct Lists<'a> {
    label: &'a str,
    problem: &'a Problem,
    snapshot: &'a Snapshot,
    ours: &'a ScheduledGraph,
    /// The tensor of ours for each address.
    ids: HashMap<usize, TensorId>,
    /// The address of each tensor that is listed.
    addresses: HashMap<TensorId, usize>,
}

impl Lists<'_> {
    fn assert_equal(mut self, real: &RealSchedule) {
        let (label, graph) = (self.label, &self.ours.graph);
        assert_eq!(
            [graph.leafs().len(), graph.nodes().len()],
            [real.leafs.len(), real.nodes.len()],
            "{label}: lengths"
        );
        let leafs = graph.leafs().iter().zip(&real.leafs).zip(&self.ours.leaf_backends);
        let nodes = graph.nodes().iter().zip(&real.nodes).zip(&self.ours.node_backends);
        let all: Vec<_> = leafs.chain(nodes).collect();
        for &((&id, seen), &backend) in &all {
            assert!(
                seen.backend < 0 || seen.backend.cast_unsigned() == backend,
                "{label}: the buffer of {}",
                seen.name
            );
            let known = *self.ids.entry(seen.address).or_insert(id);
            let address = *self.addresses.entry(id).or_insert(seen.address);
            assert_eq!((known, address), (id, seen.address), "{label}: {} is one tensor", seen.name);
        }
        for &((&id, seen), _) in &all {
            self.assert_equal_tensors(id, seen);
        }
    }

    fn assert_equal_tensors(&self, id: TensorId, seen: &SeenTensor) {
        let (label, graph, name) = (self.label, &self.ours.graph, &seen.name);
        let origin = self.ours.origins[id as usize];
        let expected = match origin {
            Origin::Tensor(of) => Some(of),
            _ => None,
        };
        assert_eq!(seen.original, expected, "{label}: {name} is {origin:?}");
        let of = |of: TensorId| self.snapshot.tensors[of as usize].name.as_str();
        if let Origin::Copy { of: copied, backend, number } = origin {
            let backend = &self.problem.backends.list[backend as usize].name;
            assert_eq!(*name, kept_name(&format!("{backend}#{}#{number}", of(copied))), "{label}: a copy");
        }
        if let Origin::Marker { of: kept } = origin {
            assert_eq!(*name, kept_name(&format!("{} (view)", of(kept))), "{label}: a marker");
        }
        let tensor = graph.tensor(id);
        assert_eq!(seen.op == 0, tensor.op == Op::None, "{label}: the operation of {name}");
        assert_eq!(seen.flags, tensor.flags.0, "{label}: the flags of {name}");
        let layout = graph.layout(id);
        assert_eq!(
            (layout.ne, layout.nb),
            (seen.layout.0, seen.layout.1.map(|stride| stride as u64)),
            "{label}: {name}"
        );
        let address = |id: TensorId| self.address(id);
        assert_eq!(
            seen.view.map(|(root, offset)| (Some(root), offset as u64)),
            tensor.view.map(|view| (address(view.root).or(seen.view.map(|(root, _)| root)), view.offset)),
            "{label}: the root of {name}"
        );
        assert_eq!(seen.sources.len(), graph.sources(id).len(), "{label}: sources of {name}");
        for (&real, &source) in seen.sources.iter().zip(graph.sources(id)) {
            assert_eq!(address(source).unwrap_or(real), real, "{label}: sources of {name}");
        }
    }

    /// Returns the address of a tensor that is listed.
    fn address(&self, id: TensorId) -> Option<usize> {
        self.addresses.get(&id).copied()
    }
}

/// Returns what ggml keeps of a name.
fn kept_name(name: &str) -> &str {
    let end = (0..=MAX_NAME).rev().find(|&end| name.is_char_boundary(end));
    &name[..end.unwrap_or(0)]
}

/// Returns `true` if lastuse takes fewer bytes than ggml's own allocator.
fn assert_equal_bytes(
    label: &str,
    snapshot: &Snapshot,
    problem: &Problem,
    ours: &ScheduledGraph,
    real: &RealSchedule,
) -> bool {
    let mut captured = captured_sizes(snapshot);
    let mut sizes = |origin: Origin, buffer_type: BufferTypeIndex| {
        let pads = match origin {
            Origin::Tensor(id) => matches!(snapshot.tensors[id as usize].op.as_ref(), "MUL_MAT" | "NONE"),
            _ => true,
        };
        let (Origin::Tensor(of) | Origin::Copy { of, .. } | Origin::Marker { of } | Origin::Staged { of }) = origin;
        let is_odd = snapshot.graph.layout(of).ne[0] % 4 != 0;
        let padding = pads && is_odd && problem.tables.pads_rows[buffer_type as usize];
        captured(origin, buffer_type) + if padding { ROW_PADDING } else { 0 }
    };
    let ggml = ggml_compute_bytes(ours, &problem.backends, &mut sizes).unwrap_or_else(|error| panic!("{error}"));
    // Tensors that backends keep longer are drawn: ggml's own allocator never frees some of them, others too early.
    if !problem.tables.optimizes {
        assert_eq!(ggml, real.ggml_bytes, "{label}: bytes of ggml's own allocator");
    }
    let planned = compute_buffers(ours, &problem.backends, &mut sizes).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(planned.bytes, real.lastuse_bytes, "{label}: bytes of lastuse");
    planned.bytes.iter().sum::<Bytes>() < ggml.iter().sum()
}
