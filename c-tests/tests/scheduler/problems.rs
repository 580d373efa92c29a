//! Backends for graphs, and the memory of weights: at random, and by layer.

use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{Device, TensorId};
use lastuse::offload::rules::{
    Backend, BackendIndex, Backends, BufferType, BufferTypeIndex, Capabilities, KeptUntil, SchedulerOptions,
    SchedulerVersion, TensorMemory, Usage,
};
use lastuse_c_tests::BackendTables;

/// The input of the real scheduler and of the rule.
#[derive(Debug)]
pub struct Problem {
    pub backends: Backends,
    pub memory: Vec<Option<TensorMemory>>,
    pub assigned: Vec<(TensorId, BackendIndex)>,
    pub tables: BackendTables,
    pub options: SchedulerOptions,
}

/// Answers from tables; the queries to a real backend are the same.
#[derive(Debug)]
pub struct TableBackends<'a> {
    pub tables: &'a BackendTables,
    pub snapshot: &'a Snapshot,
    pub types: usize,
    /// ggml 0.9.5 lets backends reorder, but keep nothing longer.
    pub keeps: bool,
}

impl TableBackends<'_> {
    fn by_tensor(&self, table: &[bool], backend: BackendIndex, tensor: TensorId) -> bool {
        table[backend as usize * self.snapshot.tensors.len() + tensor as usize]
    }

    fn can_swap(&self, first: TensorId, second: TensorId) -> bool {
        let graph = &self.snapshot.graph;
        let is_view = |id: TensorId| graph.tensor(id).view.is_some();
        let uses = |user: TensorId, source: TensorId| graph.sources(user).contains(&source);
        !is_view(first) && !is_view(second) && !uses(first, second) && !uses(second, first)
    }
}

impl Capabilities for TableBackends<'_> {
    fn supports_op(&self, backend: BackendIndex, tensor: TensorId) -> bool {
        self.by_tensor(&self.tables.supports_ops, backend, tensor)
    }

    fn supports_buffer_type(&self, backend: BackendIndex, buffer_type: BufferTypeIndex) -> bool {
        self.tables.supports_types[backend as usize * self.types + buffer_type as usize]
    }

    fn offloads_op(&self, backend: BackendIndex, node: TensorId) -> bool {
        self.by_tensor(&self.tables.offloads_ops, backend, node)
    }

    /// What `backend_optimize` of `fake_backends.c` does.
    fn optimize(&self, _: BackendIndex, nodes: &mut [TensorId], _: &dyn Fn(TensorId) -> bool) -> Vec<KeptUntil> {
        if !self.tables.optimizes {
            return Vec::new();
        }
        for first in (0..nodes.len().saturating_sub(1)).step_by(3) {
            if self.can_swap(nodes[first], nodes[first + 1]) {
                nodes.swap(first, first + 1);
            }
        }
        if !self.keeps {
            return Vec::new();
        }
        let kept = |at: usize| {
            let until = nodes[at];
            [at - 2, at - 1].map(|kept| KeptUntil { tensor: nodes[kept], until })
        };
        (2..nodes.len()).step_by(4).flat_map(kept).collect()
    }
}

fn buffer_type(name: String, is_host: bool, alignment: u64) -> BufferType {
    BufferType::new(name, if is_host { Device::Cpu } else { Device::Gpu }, is_host, alignment)
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("small numbers")
}

/// GPUs with their own memory before the CPU, and pinned memory of the host.
fn gpus_and_cpu(gpus: usize) -> Backends {
    let mut backends = Backends::default();
    for gpu in 0..gpus {
        backends.list.push(Backend { name: format!("GPU{gpu}"), buffer_type: number(gpu) });
        backends.buffer_types.push(buffer_type(format!("GPU{gpu}"), false, 128));
    }
    backends.list.push(Backend { name: "CPU".to_owned(), buffer_type: number(gpus) });
    backends.buffer_types.push(buffer_type("CPU".to_owned(), true, 32));
    backends.buffer_types.push(buffer_type("pinned".to_owned(), true, 64));
    backends
}

impl Problem {
    /// A problem in which everything is drawn.
    pub fn random(snapshot: &Snapshot, seed: u64, version: SchedulerVersion) -> Self {
        let mut random = Random(seed ^ 0x5EED);
        let gpus = 1 + usize::try_from(random.below(3)).unwrap_or(0);
        let mut backends = gpus_and_cpu(gpus);
        // Like BLAS next to the CPU, or two queues of one GPU.
        if random.percent(30) {
            let like = random.below(gpus as u64 + 1);
            backends.list[0].buffer_type = u32::try_from(like).unwrap_or(0);
        }
        let options = random_options(&mut random, version);
        let tables = random_tables(&mut random, snapshot, &backends);
        let memory = random_memory(&mut random, snapshot, backends.buffer_types.len());
        let assigned =
            if random.percent(30) { random_assignments(&mut random, snapshot, gpus + 1) } else { Vec::new() };
        Self { backends, memory, assigned, tables, options }
    }

    /// Weights by position: the first layers on the first GPU, the last ones on the CPU. Backends can do everything.
    pub fn by_layer(snapshot: &Snapshot, seed: u64, version: SchedulerVersion) -> Self {
        let mut random = Random(seed);
        let gpus = 1 + usize::try_from(seed % 2).unwrap_or(0);
        let backends = gpus_and_cpu(gpus);
        let (types, tensors) = (backends.buffer_types.len(), snapshot.tensors.len());
        let on_gpus = random.below(100);
        let externals = snapshot.graph.tensors().iter().filter(|tensor| tensor.external).count().max(1) as u64;
        let mut seen = 0;
        let memory = snapshot.graph.tensors().iter().map(|tensor| {
            tensor.external.then(|| {
                seen += 1;
                let part = 100 * (seen - 1) / externals;
                let gpu = (0..gpus as u64).find(|gpu| part < on_gpus * (gpu + 1) / gpus as u64);
                let buffer_type = gpu.map_or(number(gpus), |gpu| u32::try_from(gpu).unwrap_or(0));
                TensorMemory { buffer_type, usage: Usage::Weights }
            })
        });
        let memory = memory.collect();
        let mut tables = BackendTables {
            supports_types: vec![false; (gpus + 1) * types],
            supports_ops: vec![true; (gpus + 1) * tensors],
            offloads_ops: vec![true; (gpus + 1) * tensors],
            pads_rows: vec![false; types],
            optimizes: false,
        };
        for (backend, own) in backends.list.iter().enumerate() {
            tables.supports_types[backend * types + own.buffer_type as usize] = true;
        }
        tables.supports_types[gpus * types + gpus + 1] = true;
        let options = SchedulerOptions { version, op_offload: seed.is_multiple_of(3), copies: 1, current_copy: 0 };
        Self { backends, memory, assigned: Vec::new(), tables, options }
    }
}

fn random_options(random: &mut Random, version: SchedulerVersion) -> SchedulerOptions {
    let op_offload = random.percent(50);
    let parallel = random.percent(30);
    let current_copy = if parallel { u32::try_from(random.below(4)).unwrap_or(0) } else { 0 };
    SchedulerOptions { version, op_offload, copies: if parallel { 4 } else { 1 }, current_copy }
}

/// The CPU supports nearly everything, and all memory of the host.
fn random_tables(random: &mut Random, snapshot: &Snapshot, backends: &Backends) -> BackendTables {
    let (types, count, tensors) = (backends.buffer_types.len(), backends.list.len(), snapshot.tensors.len());
    let mut tables = BackendTables { optimizes: random.percent(20), ..BackendTables::default() };
    let (gpu_percent, offloaded) = (random.one_of(&[100, 90, 60]), random.one_of(&[0, 30, 100]));
    let gpu_uses_host = random.percent(15);
    for (backend, own) in backends.list.iter().enumerate() {
        let is_cpu = backend + 1 == count;
        let mut can_use = |(at, kind): (usize, &BufferType)| {
            let on_host = kind.is_host && (is_cpu || gpu_uses_host);
            own.buffer_type as usize == at || on_host || random.percent(4)
        };
        let supported: Vec<bool> = backends.buffer_types.iter().enumerate().map(&mut can_use).collect();
        tables.supports_types.extend(supported);
        let cpu_percent = random.one_of(&[100, 100, 97]);
        for id in (0..).take(tensors) {
            // Backends support what computes nothing.
            let computes = !snapshot.graph.sources(id).is_empty();
            let percent = if is_cpu { cpu_percent } else { gpu_percent };
            tables.supports_ops.push(!computes || random.percent(percent));
            tables.offloads_ops.push(!is_cpu && random.percent(offloaded));
        }
    }
    tables.pads_rows = (0..types).map(|_| random.percent(30)).collect();
    tables
}

/// Neighbours are often in one memory.
fn random_memory(random: &mut Random, snapshot: &Snapshot, types: usize) -> Vec<Option<TensorMemory>> {
    let mut memory: Vec<Option<TensorMemory>> = Vec::new();
    let mut buffer_type = 0;
    for tensor in snapshot.graph.tensors() {
        if random.percent(40) {
            buffer_type = u32::try_from(random.below(types as u64)).unwrap_or(0);
        }
        let usage = if random.percent(80) { Usage::Weights } else { Usage::Other };
        let is_leaf = tensor.view.is_none() && tensor.is_marker();
        let is_placed = tensor.external || (is_leaf && random.percent(10));
        let of_root = tensor.view.and_then(|view| memory.get(view.root as usize).copied().flatten());
        memory.push(match of_root {
            Some(root) => random.percent(20).then_some(root),
            None => is_placed.then_some(TensorMemory { buffer_type, usage }),
        });
    }
    memory
}

fn random_assignments(random: &mut Random, snapshot: &Snapshot, backends: usize) -> Vec<(TensorId, BackendIndex)> {
    let mut assigned = Vec::new();
    for id in (0..).take(snapshot.tensors.len()) {
        if random.percent(5) {
            assigned.push((id, u32::try_from(random.below(backends as u64)).unwrap_or(0)));
        }
    }
    assigned
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn one_of(&mut self, choices: &[u64]) -> u64 {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap_or(0)]
    }
}
