//! The facts about a verified graph that guards use: plain data, and addresses to compare.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::graph::{AddressMap, Corruption, Finding, Freed, Graph, Region, TensorId, freed, owner_at, simulate_again};
use crate::placement::Step;

use super::placed_graph::{PlacedGraph, Space};
use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;

/// An input that a node of its graph writes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostInput {
    /// Its name and operation.
    pub name: String,
    /// The name and the operation of a node that writes there, if it is known.
    pub writer: Option<String>,
    /// Its addresses.
    pub place: Range<usize>,
}

/// A verified graph: what each byte of its buffers holds at each step.
#[derive(Debug)]
pub struct WatchedGraph {
    graph: Graph,
    places: AddressMap,
    /// The first address of each space.
    bases: Vec<usize>,
    /// The buffer of each space.
    own_buffers: Vec<BufferRef>,
    /// All buffers that tensors are in.
    pub buffers: Vec<BufferRef>,
    /// The addresses of all tensors outside of the spaces.
    outside: Vec<(Range<usize>, TensorId)>,
    /// The name and the operation of each tensor, by id.
    names: Vec<String>,
    /// The nodes, by the addresses of their structs.
    nodes: HashMap<usize, GraphNode>,
    freed: Freed,
    /// The inputs that nodes write over after their last use.
    pub lost: Vec<LostInput>,
    /// A number that graphs of other nodes, or in other places, do not have.
    pub identity: u64,
}

#[derive(Clone, Copy, Debug)]
struct GraphNode {
    step: Step,
    data: usize,
    op: u32,
}

impl WatchedGraph {
    /// Creates it from a verified graph.
    pub fn new(runtime: &Runtime, placed: &PlacedGraph<'_>) -> Self {
        let PlacedGraph { graph, tensors, places, buffers, nbytes, .. } = placed;
        let mut all: Vec<BufferRef> = Vec::new();
        for buffer in tensors.iter().filter_map(|tensor| tensor.buffer_ref()) {
            if all.last() != Some(&buffer) && !all.contains(&buffer) {
                all.push(buffer);
            }
        }
        let span = |(id, tensor): (TensorId, &TensorRef<'_>)| {
            let start = tensor.data().addr();
            let size = usize::try_from(nbytes[id as usize]).unwrap_or(usize::MAX);
            (start..start.saturating_add(size), id)
        };
        let is_outside = |&(id, _): &(TensorId, &TensorRef<'_>)| graph.tensor(id).external;
        let node = |(step, &id): (Step, &TensorId)| {
            let tensor = tensors[id as usize];
            (tensor.as_ptr().addr(), GraphNode { step, data: tensor.data().addr(), op: tensor.op() })
        };
        Self {
            bases: buffers.iter().map(|space: &Space| space.base).collect(),
            own_buffers: buffers.iter().map(|space| space.buffer).collect(),
            buffers: all,
            outside: (0..).zip(tensors).filter(is_outside).map(span).collect(),
            names: tensors.iter().map(|&tensor| runtime.describe(tensor)).collect(),
            nodes: (0..).zip(graph.nodes()).map(node).collect(),
            freed: freed(graph, places),
            lost: lost_inputs(runtime, placed),
            identity: identity(placed),
            graph: graph.clone(),
            places: places.clone(),
        }
    }

    /// The step that computes `tensor`; `None` if it is not a node of the graph, or has changed.
    pub fn step(&self, tensor: TensorRef<'_>) -> Option<Step> {
        let node = self.nodes.get(&tensor.as_ptr().addr())?;
        (node.data == tensor.data().addr() && node.op == tensor.op()).then_some(node.step)
    }

    /// The number of nodes of the graph.
    pub fn steps(&self) -> usize {
        self.graph.nodes().len()
    }

    /// Returns the memory that is free before the first step: buffers, and ranges of offsets in them.
    pub fn free_at_start(&self) -> impl Iterator<Item = (BufferRef, Range<usize>)> {
        self.freed.at_start.iter().map(|&region| self.in_buffer(region))
    }

    /// Returns what becomes free after a step: buffers, and ranges of offsets in them.
    pub fn free_after(&self, step: Step) -> impl Iterator<Item = (BufferRef, Range<usize>)> {
        self.freed.after[step as usize].iter().map(|&region| self.in_buffer(region))
    }

    fn in_buffer(&self, region: Region) -> (BufferRef, Range<usize>) {
        let [start, end] = [region.start, region.end].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        (self.own_buffers[region.space as usize], start..end)
    }

    /// Returns a predicate about the owner of `addresses` while `step` runs, if they are in a known tensor or space.
    pub fn owner(&self, step: Option<Step>, addresses: &Range<usize>) -> Option<String> {
        let holds = |(span, _): &&(Range<usize>, TensorId)| span.start < addresses.end && addresses.start < span.end;
        if let Some((_, id)) = self.outside.iter().find(holds) {
            return Some(format!("belong to {}", self.names[*id as usize]));
        }
        let (space, region) = (0..).zip(&self.bases).zip(&self.places.spaces).find_map(|((space, &base), &size)| {
            let start = addresses.start.checked_sub(base)? as u64;
            let end = start + addresses.len() as u64;
            (end <= size).then_some((space, Region { space, start, end }))
        })?;
        let step = step?;
        debug_assert_eq!(space, region.space);
        match owner_at(&self.graph, &self.places, step, region) {
            Some(id) => Some(format!("belong to {}", self.names[id as usize])),
            None => Some("are free at this step, in a freed block".to_owned()),
        }
    }
}

/// Returns the inputs of a graph that a second run would not find.
fn lost_inputs(runtime: &Runtime, placed: &PlacedGraph<'_>) -> Vec<LostInput> {
    let PlacedGraph { graph, tensors, places, nbytes, .. } = placed;
    let name = |id: TensorId| runtime.describe(tensors[id as usize]);
    let lost = |Finding { corruption, .. }| {
        let Corruption::Overwritten { expected, found, .. } = corruption else { return None };
        let start = tensors[expected as usize].data().addr();
        let size = usize::try_from(nbytes[expected as usize]).ok()?;
        Some(LostInput { name: name(expected), writer: found.map(name), place: start..start.checked_add(size)? })
    };
    simulate_again(graph, places, nbytes).into_iter().filter_map(lost).collect()
}

fn identity(placed: &PlacedGraph<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for &node in placed.graph.nodes() {
        let tensor = placed.tensors[node as usize];
        (tensor.as_ptr().addr(), tensor.data().addr(), tensor.op()).hash(&mut hasher);
    }
    hasher.finish()
}

static REGISTERED: Mutex<Vec<Arc<WatchedGraph>>> = Mutex::new(Vec::new());

fn registered() -> MutexGuard<'static, Vec<Arc<WatchedGraph>>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets guards find a graph, until dropped.
#[derive(Debug)]
pub struct Registration(Arc<WatchedGraph>);

impl Registration {
    /// Registers `graph`.
    pub fn new(graph: WatchedGraph) -> Self {
        let graph = Arc::new(graph);
        registered().push(Arc::clone(&graph));
        Self(graph)
    }

    /// Returns the latest registered graph that computes `tensor`.
    pub fn find(tensor: TensorRef<'_>) -> Option<Arc<WatchedGraph>> {
        registered().iter().rev().find(|graph| graph.step(tensor).is_some()).cloned()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        registered().retain(|graph| !Arc::ptr_eq(graph, &self.0));
    }
}
