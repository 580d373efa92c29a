//! What guards know of a graph that has its memory: plain data, and addresses to compare.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::graph::{Freed, Graph, Places, Region, TensorId, freed, owner_at};
use crate::placement::Step;

use super::placed::{Placed, Space};
use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;

/// The memory of a graph over time.
#[derive(Debug)]
pub struct Watch {
    graph: Graph,
    places: Places,
    /// By space: the first address.
    bases: Vec<usize>,
    /// By space.
    own_buffers: Vec<BufferRef>,
    /// All that tensors lie in.
    pub buffers: Vec<BufferRef>,
    /// The addresses of all tensors that lie elsewhere than in the spaces.
    outside: Vec<(Range<usize>, TensorId)>,
    /// By id: its name and its operation.
    names: Vec<String>,
    /// The nodes by their addresses.
    nodes: HashMap<usize, Node>,
    freed: Freed,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    step: Step,
    data: usize,
    op: u32,
}

impl Watch {
    /// Of a graph whose memory is right.
    pub fn new(runtime: &Runtime, placed: &Placed<'_>) -> Self {
        let Placed { graph, tensors, places, buffers, nbytes, .. } = placed;
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
            (tensor.as_ptr().addr(), Node { step, data: tensor.data().addr(), op: tensor.op() })
        };
        Self {
            bases: buffers.iter().map(|space: &Space| space.base).collect(),
            own_buffers: buffers.iter().map(|space| space.buffer).collect(),
            buffers: all,
            outside: (0..).zip(tensors).filter(is_outside).map(span).collect(),
            names: tensors.iter().map(|&tensor| runtime.describe(tensor)).collect(),
            nodes: (0..).zip(graph.nodes()).map(node).collect(),
            freed: freed(graph, places),
            graph: graph.clone(),
            places: places.clone(),
        }
    }

    /// The step that computes `tensor`, if the graph does and the tensor is as it was.
    pub fn step(&self, tensor: TensorRef<'_>) -> Option<Step> {
        let node = self.nodes.get(&tensor.as_ptr().addr())?;
        (node.data == tensor.data().addr() && node.op == tensor.op()).then_some(node.step)
    }

    /// How many nodes the graph has.
    pub fn steps(&self) -> usize {
        self.graph.nodes().len()
    }

    /// What is free before the first step: the buffer, and bytes from its start.
    pub fn free_at_start(&self) -> impl Iterator<Item = (BufferRef, Range<usize>)> {
        self.freed.at_start.iter().map(|&region| self.in_buffer(region))
    }

    /// What becomes free when a step is done.
    pub fn free_after(&self, step: Step) -> impl Iterator<Item = (BufferRef, Range<usize>)> {
        self.freed.after[step as usize].iter().map(|&region| self.in_buffer(region))
    }

    fn in_buffer(&self, region: Region) -> (BufferRef, Range<usize>) {
        let [start, end] = [region.start, region.end].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        (self.own_buffers[region.space as usize], start..end)
    }

    /// Whose bytes these are while `step` runs, in words.
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

static WATCHES: Mutex<Vec<Arc<Watch>>> = Mutex::new(Vec::new());

fn watches() -> MutexGuard<'static, Vec<Arc<Watch>>> {
    WATCHES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A watch that guards can find, as long as this value is there.
#[derive(Debug)]
pub struct Registration(Arc<Watch>);

impl Registration {
    /// Lets guards find `watch`.
    pub fn new(watch: Watch) -> Self {
        let watch = Arc::new(watch);
        watches().push(Arc::clone(&watch));
        Self(watch)
    }

    /// The watch of the graph that computes `tensor`, the latest where there are several.
    pub fn find(tensor: TensorRef<'_>) -> Option<Arc<Watch>> {
        watches().iter().rev().find(|watch| watch.step(tensor).is_some()).cloned()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        watches().retain(|watch| !Arc::ptr_eq(watch, &self.0));
    }
}
