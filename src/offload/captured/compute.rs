//! The compute buffers of captured graphs, if their weights and caches are placed.

use crate::graph::snapshot::Snapshot;
use crate::graph::{BufferSpec, Device as Processor, TensorId};
use crate::offload::device::{Device, DeviceIndex};
use crate::offload::item::ItemKind;
use crate::offload::planner::{Assignment, Measure};
use crate::offload::rules::{
    Backend, BackendIndex, Backends, BufferType, DestinationClasses, PlacedGraph, Rule, Schedule, SchedulerOptions,
    TensorMemory, TypicalBackends, Usage, captured_sizes, compute_buffers, llama_cpp_assignments,
    llama_cpp_host_attention,
};
use crate::placement::Bytes;

use super::items::CapturedItems;
use super::layers::LayerHomes;

/// The batch from which llama.cpp leaves the results of layers to the scheduler.
const SMALL_BATCH: i64 = 32;

/// `GGML_SCHED_MAX_COPIES` of llama.cpp.
const PIPELINE_COPIES: u32 = 4;

/// The rule by which intermediates are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapturedRule {
    /// What `ggml_backend_sched` does.
    Scheduler(SchedulerOptions),
    /// On a device if any operand is there.
    AnyOperand,
    /// PowerInfer's, with the results of a layer on a device if all its weights are there.
    PowerInfer,
}

/// Measures compute buffers of captured graphs: a rule says where intermediates are, and lastuse plans them there.
#[derive(Clone, Debug)]
pub struct CapturedCompute<'a> {
    snapshots: &'a [Snapshot],
    items: &'a CapturedItems,
    backends: Backends,
    rule: CapturedRule,
    has_pipelines: bool,
}

impl<'a> CapturedCompute<'a> {
    /// For these devices, the last of which is the host. Backends support typical operations ([`TypicalBackends`]).
    pub fn new(snapshots: &'a [Snapshot], items: &'a CapturedItems, devices: &[Device], rule: CapturedRule) -> Self {
        let host = devices.len().saturating_sub(1);
        let buffer_type = |(at, device): (DeviceIndex, &Device)| {
            let processor = if at == host { Processor::Cpu } else { Processor::named(&device.name) };
            let buffer_type = BufferType::new(device.name.clone(), processor, at == host, device.alignment);
            let buffer = BufferSpec { max_chunk: device.max_buffer, ..buffer_type.buffer };
            BufferType { buffer, ..buffer_type }
        };
        let list = (0..).zip(devices).map(|(buffer_type, device)| Backend { name: device.name.clone(), buffer_type });
        let (list, buffer_types) = (list.collect(), devices.iter().enumerate().map(buffer_type).collect());
        Self { snapshots, items, backends: Backends { list, buffer_types }, rule, has_pipelines: false }
    }

    /// Sets whether all devices can compute batches in pipelines, asynchronously and with events. llama.cpp does so where
    /// everything is on several devices, and has several copies of the inputs of each split then.
    #[must_use]
    pub fn with_pipelines(self, has_pipelines: bool) -> Self {
        Self { has_pipelines, ..self }
    }

    /// Returns where everything of a graph is, if its weights and caches are placed like this.
    ///
    /// # Errors
    /// Why the graph cannot be placed, with its label.
    pub fn schedule(&self, graph: usize, assignment: &Assignment) -> Result<Schedule, String> {
        let snapshot = &self.snapshots[graph];
        let memory = self.memory(graph, assignment);
        let placed = PlacedGraph { snapshot, memory: &memory, assigned: &[] };
        let capabilities = TypicalBackends::new(placed, &self.backends);
        let homes = LayerHomes::of(&self.items.items, assignment, self.backends.host() as DeviceIndex);
        let assigned = self.assigned_by_llama_cpp(placed, &capabilities, &homes);
        let placed = PlacedGraph { assigned: &assigned, ..placed };
        let rule = match self.rule {
            CapturedRule::Scheduler(options) if self.has_pipelines && homes.has_pipelines() => {
                Rule::Scheduler(SchedulerOptions { copies: PIPELINE_COPIES, ..options })
            }
            CapturedRule::Scheduler(options) => Rule::Scheduler(options),
            CapturedRule::AnyOperand => Rule::AnyOperand,
            CapturedRule::PowerInfer => {
                Rule::PowerInfer(DestinationClasses::of_layers(placed, &self.backends, &capabilities))
            }
        };
        let schedule = rule.place(placed, &self.backends, &capabilities);
        schedule.map_err(|why| format!("{}: {why}", snapshot.label))
    }

    /// Returns the bytes of the compute buffer of each device for one graph.
    ///
    /// # Errors
    /// Why the graph cannot be placed or planned, with its label.
    pub fn of_graph(&self, graph: usize, assignment: &Assignment) -> Result<Vec<Bytes>, String> {
        let schedule = self.schedule(graph, assignment)?;
        let snapshot = &self.snapshots[graph];
        let planned = compute_buffers(&schedule.scheduled, &self.backends, &mut captured_sizes(snapshot));
        planned.map(|planned| planned.bytes).map_err(|why| format!("{}: {why}", snapshot.label))
    }

    /// Returns what llama.cpp assigns to the device of its layer, for small batches and where all layers are on devices,
    /// and to the host.
    fn assigned_by_llama_cpp(
        &self,
        placed: PlacedGraph<'_>,
        capabilities: &TypicalBackends<'_>,
        homes: &LayerHomes,
    ) -> Vec<(TensorId, BackendIndex)> {
        let backend = |layer: u32| homes.of_layer(layer).and_then(|home| home.try_into().ok());
        let mut assigned = llama_cpp_assignments(placed, capabilities, backend);
        let tokens = |node: TensorId| placed.graph().layout(node).ne[1];
        assigned.retain(|&(node, _)| homes.is_all_on_devices() || tokens(node) < SMALL_BATCH);
        if homes.are_caches_on_host {
            assigned.extend(llama_cpp_host_attention(placed, self.backends.host()));
        }
        assigned
    }

    fn memory(&self, graph: usize, assignment: &Assignment) -> Vec<Option<TensorMemory>> {
        let snapshot = &self.snapshots[graph];
        let items = &self.items.of_tensors[graph];
        let of_root = |id: u32| {
            let item = items[snapshot.graph.root(id) as usize]?;
            let usage = if self.items.items[item].kind == ItemKind::Weight { Usage::Weights } else { Usage::Other };
            let buffer_type = u32::try_from(assignment.0[item].device).ok()?;
            Some(TensorMemory { buffer_type, usage })
        };
        let tensors = (0..).zip(snapshot.graph.tensors());
        tensors.map(|(id, tensor)| if tensor.external { of_root(id) } else { None }).collect()
    }
}

/// The largest of all graphs, by device.
impl Measure for CapturedCompute<'_> {
    fn measure(&mut self, assignment: &Assignment) -> Result<Vec<Bytes>, String> {
        let mut largest = vec![0; self.backends.list.len()];
        for graph in 0..self.snapshots.len() {
            for (largest, bytes) in largest.iter_mut().zip(self.of_graph(graph, assignment)?) {
                *largest = bytes.max(*largest);
            }
        }
        Ok(largest)
    }
}
