//! The compute buffers of live graphs, if their weights and caches are placed.

use crate::graph::{BufferSpec, Device as Processor, Graph, TensorId};
use crate::offload::device::Device;
use crate::offload::item::ItemKind;
use crate::offload::planner::{Assignment, Measure};
use crate::offload::rules::{
    Backend, BackendIndex, Backends, BufferType, DestinationClasses, Origin, PlacedGraph, Rule, Schedule,
    ScheduledGraph, SchedulerOptions, SchedulerVersion, TensorMemory, TypicalBackends, Usage, compute_buffers,
};
use crate::placement::Bytes;

use crate::ggml::live::runtime::Runtime;
use crate::ggml::process::settings::settings;

use super::backends::LiveBackends;
use super::graph::{Home, LiveGraph};
use super::request::{LiveDevice, OffloadRule, PlannerSettings};

/// Versions of ggml below this have the scheduler of 0.9.5.
const FIRST_NEW_SCHEDULER: [u32; 3] = [0, 10, 0];

/// Measures compute buffers of live graphs.
#[derive(Debug)]
pub struct LiveCompute<'a, 'g> {
    runtime: &'static Runtime,
    settings: PlannerSettings,
    devices: &'a [LiveDevice],
    kinds: Vec<ItemKind>,
    graphs: Vec<LiveGraph<'g>>,
    backends: Backends,
    /// By buffer type, the first device that has it.
    device_of_type: Vec<usize>,
}

impl<'a, 'g> LiveCompute<'a, 'g> {
    /// For these devices, the last of which is the host. `kinds` are those of the items.
    pub fn new(
        runtime: &'static Runtime,
        settings: PlannerSettings,
        devices: &'a [LiveDevice],
        kinds: Vec<ItemKind>,
        graphs: Vec<LiveGraph<'g>>,
    ) -> Self {
        let mut device_of_type: Vec<usize> = Vec::new();
        let mut list = Vec::with_capacity(devices.len());
        for (at, device) in devices.iter().enumerate() {
            let is_shared = |&other: &usize| {
                devices[other].buffer_type.is_some() && devices[other].buffer_type == device.buffer_type
            };
            let buffer_type = device_of_type.iter().position(is_shared).unwrap_or_else(|| {
                device_of_type.push(at);
                device_of_type.len() - 1
            });
            let buffer_type = u32::try_from(buffer_type).expect("few devices");
            let name = device.buffer_type.map_or_else(|| device.device.name.clone(), |known| known.name());
            list.push(Backend { name, buffer_type });
        }
        let host = devices.len() - 1;
        let buffer_types = device_of_type.iter().map(|&at| buffer_type(&devices[at], at == host)).collect();
        let backends = Backends { list, buffer_types };
        Self { runtime, settings, devices, kinds, graphs, backends, device_of_type }
    }

    /// Returns where everything of a graph is, if the items are placed like this.
    ///
    /// # Errors
    /// Why the graph cannot be placed.
    pub fn schedule(&self, graph: usize, assignment: &Assignment) -> Result<Schedule, String> {
        let graph = &self.graphs[graph];
        let memory = self.memory(graph, assignment);
        let placed = PlacedGraph { snapshot: &graph.snapshot, memory: &memory, assigned: &[] };
        let typical = TypicalBackends::new(placed, &self.backends);
        let capabilities = LiveBackends::new(self.runtime, typical, self.devices, &self.device_of_type, &graph.tensors);
        let rule = match self.settings.rule {
            OffloadRule::Scheduler => Rule::Scheduler(self.scheduler()),
            OffloadRule::AnyOperand => Rule::AnyOperand,
            OffloadRule::PowerInfer => {
                Rule::PowerInfer(DestinationClasses::of_layers(placed, &self.backends, &capabilities))
            }
        };
        rule.place(placed, &self.backends, &capabilities).map_err(|why| why.to_string())
    }

    /// Returns, by leaf and by node of a graph, the backend in whose memory it is.
    pub fn residences(&self, graph: usize, schedule: &Schedule) -> [Vec<BackendIndex>; 2] {
        let graph = &self.graphs[graph].snapshot.graph;
        let of = |list: &[TensorId]| {
            let home = |&id: &TensorId| schedule.resides[id as usize].unwrap_or(self.backends.host());
            list.iter().map(home).collect()
        };
        [of(graph.leafs()), of(graph.nodes())]
    }

    /// Returns the graph that was read.
    pub fn graph(&self, graph: usize) -> &LiveGraph<'g> {
        &self.graphs[graph]
    }

    /// Returns the number of graphs.
    pub fn count(&self) -> usize {
        self.graphs.len()
    }

    fn of_graph(&self, index: usize, assignment: &Assignment) -> Result<Vec<Bytes>, String> {
        let schedule = self.schedule(index, assignment)?;
        let graph = &self.graphs[index];
        let scheduled = if self.settings.is_direct { self.direct(index, &schedule) } else { schedule.scheduled };
        let mut size = |origin: Origin, buffer_type: u32| {
            let (Origin::Tensor(of) | Origin::Staged { of } | Origin::Copy { of, .. } | Origin::Marker { of }) = origin;
            let known = self.devices[self.device_of_type[buffer_type as usize]].buffer_type;
            known.map_or_else(
                || graph.snapshot.tensors[of as usize].nbytes,
                |known| known.alloc_size(graph.tensors[of as usize]),
            )
        };
        let planned = compute_buffers(&scheduled, &self.backends, &mut size);
        planned.map(|planned| planned.bytes).map_err(|why| why.to_string())
    }

    /// Returns the graph as it is allocated without a scheduler: each tensor where it is by the rule, and no copies.
    fn direct(&self, index: usize, schedule: &Schedule) -> ScheduledGraph {
        let [leaf_backends, node_backends] = self.residences(index, schedule);
        let graph: Graph = self.graphs[index].snapshot.graph.clone();
        let origins = (0..).take(graph.tensors().len()).map(Origin::Tensor).collect();
        ScheduledGraph { graph, origins, node_backends, leaf_backends }
    }

    fn scheduler(&self) -> SchedulerOptions {
        let is_new = self.runtime.number.is_some_and(|number| number >= FIRST_NEW_SCHEDULER);
        let version = if is_new { SchedulerVersion::GGML_0_26 } else { SchedulerVersion::GGML_0_9_5 };
        SchedulerOptions { version, op_offload: self.settings.op_offload, ..SchedulerOptions::default() }
    }

    fn memory(&self, graph: &LiveGraph<'_>, assignment: &Assignment) -> Vec<Option<TensorMemory>> {
        let on = |device: usize, usage: Usage| {
            Some(TensorMemory { buffer_type: self.backends.list[device].buffer_type, usage })
        };
        let memory = |home: &Home| match *home {
            Home::Planned => None,
            Home::Device(device) => on(device, Usage::Other),
            Home::Item(item) => {
                let usage = if self.kinds[item] == ItemKind::Weight { Usage::Weights } else { Usage::Other };
                on(assignment.0[item].device, usage)
            }
        };
        graph.homes.iter().map(memory).collect()
    }
}

/// Returns how compute buffers on a device are planned.
fn buffer_type(device: &LiveDevice, is_host: bool) -> BufferType {
    let settings = settings();
    let Device { name, alignment, max_buffer, .. } = &device.device;
    match device.buffer_type {
        Some(known) => BufferType {
            name: known.name(),
            is_host: known.is_host(),
            buffer: known.spec(&settings.rules, settings.effort),
        },
        None => {
            let processor = if is_host { Processor::Cpu } else { Processor::named(name) };
            let assumed = BufferType::new(name.clone(), processor, is_host, *alignment);
            let buffer = BufferSpec { max_chunk: *max_buffer, effort: settings.effort, ..assumed.buffer };
            BufferType { buffer, ..assumed }
        }
    }
}

/// The largest of all graphs, by device.
impl Measure for LiveCompute<'_, '_> {
    fn measure(&mut self, assignment: &Assignment) -> Result<Vec<Bytes>, String> {
        let mut largest = vec![0; self.backends.list.len()];
        for graph in 0..self.graphs.len() {
            let bytes = self.of_graph(graph, assignment).map_err(|why| format!("graph {graph}: {why}"))?;
            largest.iter_mut().zip(bytes).for_each(|(largest, bytes)| *largest = bytes.max(*largest));
        }
        Ok(largest)
    }
}
