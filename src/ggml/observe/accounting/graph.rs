//! A planned graph as plain data: its tensors, when they are needed, and their places.

use std::collections::HashMap;

use crate::accounting::{AccountedGraph, MemoryClass, Step, Steps};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::read::{ReadGraph, Requested};
use crate::graph::{Address, Flags, GraphPlan, TensorId};
use crate::placement::Bytes;

use super::describe::{DescribedBuffer, address, class, device_name, tensor};

/// The place of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// These bytes after an address of the plan, whose chunk may not be allocated yet.
    Planned(Address, Bytes),
    /// In the buffer at this address, at this offset.
    InBuffer(u64, Bytes),
}

/// A graph that was planned, and the buffers that its other tensors lie in.
#[derive(Clone, Debug)]
pub struct GraphDraft {
    /// The bytes that its plan takes in each buffer.
    pub sizes: Vec<Bytes>,
    /// The graph, without the places of its tensors.
    pub graph: AccountedGraph,
    /// The places, by the positions of the tensors.
    pub places: Vec<(usize, Place)>,
    /// Each buffer once.
    pub buffers: Vec<DescribedBuffer>,
}

impl GraphDraft {
    /// Describes a graph as an allocator with this number has planned it, for buffers of these types.
    pub fn new(
        allocator: u64,
        types: &[BufferType],
        reading: &ReadGraph<'_>,
        requested: &Requested,
        plan: &GraphPlan,
    ) -> Option<Self> {
        let runtime = types.first()?.runtime();
        let graph = &reading.graph;
        let uses = Uses::new(runtime, reading);
        let executes = executing(types, reading, requested);
        let mut buffers = FoundBuffers::new(runtime);
        let (mut tensors, mut places) = (Vec::new(), Vec::new());
        for (id, &live) in (0..).zip(&reading.tensors) {
            let root = graph.root(id);
            let owner = reading.tensors[root as usize];
            let planned = plan.placed(root);
            let within = graph.tensor(id).view.map_or(0, |view| view.offset);
            let place = match planned {
                Some((at, _)) => Some(Place::Planned(at, within)),
                None => buffers.place(owner, within).map(|(buffer, offset)| Place::InBuffer(buffer, offset)),
            };
            places.extend(place.map(|place| (id as usize, place)));
            let bytes = match (root == id, planned, live.buffer_ref()) {
                (true, Some((_, bytes)), _) => bytes,
                (true, None, Some(buffer)) => runtime.alloc_size_in(buffer, live),
                _ => runtime.nbytes(live),
            };
            let class = match planned {
                Some(_) => MemoryClass::Compute,
                None => class(runtime, owner, uses.is_written[root as usize]),
            };
            let mut described = tensor(runtime, live, class, bytes);
            described.steps = uses.steps[id as usize];
            described.executes = executes.get(&id).filter(|_| uses.is_executed[id as usize]).cloned();
            tensors.push(described);
        }
        let (leafs, nodes) = (graph.leafs().len(), graph.nodes().len());
        let graph = AccountedGraph { allocator, leafs, nodes, tensors };
        Some(Self { sizes: plan.sizes().collect(), graph, places, buffers: buffers.described().collect() })
    }
}

/// Returns the device that executes each node: a node is requested in the buffer of the backend that executes it, wherever
/// its memory is.
fn executing(types: &[BufferType], reading: &ReadGraph<'_>, requested: &Requested) -> HashMap<TensorId, String> {
    let devices: Vec<String> = types.iter().map(|&buffer_type| device_name(buffer_type)).collect();
    let device = |step: usize| devices[requested.nodes.get(step).map_or(0, |&buffer| buffer as usize)].clone();
    reading.graph.nodes().iter().enumerate().map(|(step, &node)| (node, device(step))).collect()
}

/// The buffers that tensors lie in which no plan places, by address; `None` for those without a type.
#[derive(Debug)]
pub struct FoundBuffers {
    runtime: &'static Runtime,
    found: HashMap<u64, Option<DescribedBuffer>>,
}

impl FoundBuffers {
    /// Has found none.
    pub fn new(runtime: &'static Runtime) -> Self {
        Self { runtime, found: HashMap::new() }
    }

    /// Returns the place `within` bytes after the start of a tensor that owns its memory, if it is in a buffer.
    pub fn place(&mut self, owner: TensorRef<'_>, within: Bytes) -> Option<(u64, Bytes)> {
        let buffer = owner.buffer_ref().filter(|_| !owner.data().is_null())?;
        let describe = || DescribedBuffer::new(self.runtime, buffer, None, false);
        let described = self.found.entry(address(buffer)).or_insert_with(describe).as_ref()?;
        let offset = (owner.data().addr() as Bytes).checked_sub(described.held.base)?;
        Some((described.address, offset.saturating_add(within)))
    }

    /// Returns each buffer once.
    pub fn described(self) -> impl Iterator<Item = DescribedBuffer> {
        self.found.into_values().flatten()
    }
}

/// When the tensors of a graph are needed, and what is done to them, by tensor.
struct Uses {
    steps: Vec<Option<Steps>>,
    /// Whether a node writes to the memory that it owns, other than by computing it.
    is_written: Vec<bool>,
    /// Whether a node executes an operation to compute it.
    is_executed: Vec<bool>,
}

impl Uses {
    fn new(runtime: &Runtime, reading: &ReadGraph<'_>) -> Self {
        let (graph, count) = (&reading.graph, reading.tensors.len());
        let mut uses =
            Self { steps: vec![None; count], is_written: vec![false; count], is_executed: vec![false; count] };
        for (step, &node) in (0..).zip(graph.nodes()) {
            let op = reading.ops[node as usize];
            let is_executed = op != 0 && !runtime.operations.op(op).is_view();
            uses.is_executed[node as usize] = is_executed;
            uses.is_written[graph.root(node) as usize] |= is_executed && graph.root(node) != node;
            for &used in [node].iter().chain(graph.sources(node)) {
                uses.touch(used, step);
                uses.touch(graph.root(used), step);
            }
        }
        let last = graph.nodes().len().checked_sub(1).and_then(|last| Step::try_from(last).ok());
        for id in (0..).take(count).filter(|&id| graph.tensor(id).flags.has(Flags::OUTPUT)) {
            for id in [id, graph.root(id)] {
                if let (Some(steps), Some(last)) = (&mut uses.steps[id as usize], last) {
                    steps.last = last;
                }
            }
        }
        uses
    }

    /// The tensor is computed, written or read at this step.
    fn touch(&mut self, id: TensorId, step: Step) {
        self.steps[id as usize].get_or_insert(Steps { first: step, last: step }).last = step;
    }
}
