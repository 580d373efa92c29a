//! Compute buffers under the three offload rules: the table of `docs/internals/offload-rules.md`.

use lastuse::graph::Device;
use lastuse::graph::snapshot::Snapshot;
use lastuse::offload::rules::{
    Backend, Backends, BufferType, DestinationClasses, PlacedGraph, Rule, SchedulerOptions, TensorMemory,
    TypicalBackends, Usage, captured_sizes, compute_buffers,
};
use lastuse::placement::Bytes;
use lastuse_c_tests::{aligned_table, captured_graphs, read_graph};

use crate::support::expect;

const PAGE: &str = include_str!("../../../docs/internals/offload-rules.md");

const GRAPHS: [&str; 3] = ["flash-v32k-llama", "noflash-v128k-llama", "deep48-qwen3moe"];

const MIB: Bytes = 1 << 20;

fn gpu_and_cpu() -> Backends {
    let backend = |name: &str, buffer_type| Backend { name: name.to_owned(), buffer_type };
    let gpu = BufferType::new("GPU", Device::Gpu, false, 128);
    Backends {
        list: vec![backend("GPU", 0), backend("CPU", 1)],
        buffer_types: vec![gpu, BufferType::new("CPU", Device::Cpu, true, 32)],
    }
}

/// Returns N for the weights and caches of layer N.
fn layer(name: &str) -> Option<u32> {
    let number = name.strip_prefix("blk.").or_else(|| name.split_once("_l").map(|(_, number)| number))?;
    number.split('.').next()?.parse().ok()
}

/// Puts the last half of the layers on the GPU, as `-ngl` of llama.cpp does, and all else on the host.
fn last_half_on_gpu(snapshot: &Snapshot) -> Vec<Option<TensorMemory>> {
    let layers = snapshot.tensors.iter().filter_map(|tensor| layer(&tensor.name)).max().map_or(0, |last| last + 1);
    let tensors = snapshot.tensors.iter().zip(snapshot.graph.tensors());
    let memory = tensors.map(|(info, tensor)| {
        let on_gpu = layer(&info.name).is_some_and(|layer| layer >= layers / 2);
        let usage = if info.name.starts_with("cache_") { Usage::Other } else { Usage::Weights };
        tensor.external.then_some(TensorMemory { buffer_type: u32::from(!on_gpu), usage })
    });
    memory.collect()
}

/// Returns the compute buffers of a graph under each rule, in MiB.
fn row(name: &str) -> Vec<String> {
    let snapshot = expect(read_graph(&captured_graphs().join(format!("{name}.jsonl.gz"))));
    let (backends, memory) = (gpu_and_cpu(), last_half_on_gpu(&snapshot));
    let placed = PlacedGraph { snapshot: &snapshot, memory: &memory, assigned: &[] };
    let typical = TypicalBackends::new(placed, &backends);
    let scheduler = |op_offload| Rule::Scheduler(SchedulerOptions { op_offload, ..SchedulerOptions::default() });
    let classes = DestinationClasses::of_layers(placed, &backends, &typical);
    let rules = [scheduler(true), scheduler(false), Rule::AnyOperand, Rule::PowerInfer(classes)];
    let cells = rules.map(|rule| {
        let found = rule.place(placed, &backends, &typical).unwrap_or_else(|error| panic!("{name}: {error}"));
        let buffers = compute_buffers(&found.scheduled, &backends, &mut captured_sizes(&snapshot));
        let bytes = buffers.unwrap_or_else(|error| panic!("{name}: {error}")).bytes;
        bytes.iter().map(|&bytes| bytes.div_ceil(MIB).to_string()).collect::<Vec<_>>().join(" + ")
    });
    [vec![name.to_owned()], cells.to_vec()].concat()
}

#[test]
fn page_has_the_compute_buffers_of_each_rule() {
    let head = ["graph", "scheduler", "without `op_offload`", "any operand", "PowerInfer's"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(GRAPHS.map(row));
    let table = aligned_table(&rows, 1);
    assert!(PAGE.contains(&table), "docs/internals/offload-rules.md must have this table:\n{table}");
}
