//! The assignments of a plan, in ggml's order, and how they are written into tensors.
//!
//! Entries are small: for the first graph of a process the list is written to memory that is new to it, and each page of
//! that takes as long as dozens of tensors.

use crate::graph::{Address, Graph, GraphPlan, Tensor, TensorId};
use crate::placement::Bytes;

use crate::ggml::allocator::chunks::Chunks;
use crate::ggml::live::buffers::InitFailed;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::refusal::Refusal;

/// How tensors are assigned their memory, by their ids in the planned graph.
#[derive(Debug)]
pub struct Assignments {
    list: Vec<Entry>,
    placed: usize,
}

/// A tensor and its place.
#[derive(Clone, Copy, Debug)]
struct Entry {
    tensor: TensorId,
    /// A [`BufferIndex`](crate::graph::BufferIndex), or [`VIEW`].
    buffer: u16,
    /// A [`ChunkId`](crate::placement::ChunkId).
    chunk: u16,
    /// Bytes from the start of the chunk; [`OUTSIDE`] if the tensor does not lie in it.
    offset: Bytes,
}

/// In place of a buffer, for tensors that have the memory of their root.
const VIEW: u16 = u16::MAX;

/// Larger than any buffer: placing a tensor there fails.
const OUTSIDE: Bytes = Bytes::MAX;

/// How one tensor is assigned its memory.
#[derive(Clone, Copy, Debug)]
enum Assignment {
    /// At an address of the plan, where the bytes that the buffer type required lie in the chunk.
    Place(TensorId, Address),
    /// In the memory of its root.
    View(TensorId),
}

impl Assignments {
    /// Lists the assignments of a plan for `graph`, whose first `listed` tensors are leafs or nodes.
    pub fn new(graph: &Graph, plan: &GraphPlan, listed: usize) -> Self {
        const { assert!(size_of::<Entry>() == 16) };
        let mut new = Self { list: Vec::with_capacity(graph.tensors().len()), placed: 0 };
        if listed == graph.tensors().len() && is_in_order(graph) {
            (0..).take(plan.allocations.len()).for_each(|id| new.add(graph, plan, id));
        } else {
            order(graph).into_iter().for_each(|id| new.add(graph, plan, id));
        }
        new
    }

    #[inline]
    fn add(&mut self, graph: &Graph, plan: &GraphPlan, tensor: TensorId) {
        match graph.tensor(tensor) {
            Tensor { view: Some(_), .. } => self.list.push(Entry { tensor, buffer: VIEW, chunk: 0, offset: 0 }),
            Tensor { external: true, .. } => {}
            _ => {
                if let Some((address, alloc_size)) = plan.placed(tensor) {
                    self.list.push(Entry::at(plan, tensor, address, alloc_size));
                    self.placed += 1;
                }
            }
        }
    }

    /// The number of tensors that the plan has an address for.
    pub fn placed(&self) -> usize {
        self.placed
    }

    /// Assigns memory of `chunks` to the tensors that `tensor` returns by id; `unassigned` of them need memory of the plan.
    ///
    /// # Errors
    /// [`Refusal::InitFailed`] or [`Refusal::ListedTwice`].
    pub fn assign<'g>(
        &self,
        runtime: &Runtime,
        chunks: &Chunks,
        mut unassigned: usize,
        tensor: impl Fn(TensorId) -> Option<TensorRef<'g>>,
    ) -> Result<(), Refusal> {
        chunks.reset();
        for assignment in self.iter() {
            match assignment {
                Assignment::Place(id, address) => {
                    let Some(tensor) = tensor(id).filter(|tensor| !tensor.has_memory()) else { continue };
                    unassigned -= 1;
                    checked(tensor, chunks.at(address).place_planned(tensor, address.offset))?;
                }
                Assignment::View(id) => {
                    let Some(tensor) = tensor(id).filter(|&tensor| is_unplaced_view(tensor)) else { continue };
                    checked(tensor, runtime.place_view(tensor))?;
                }
            }
        }
        // A tensor that is listed twice, where the planned graph had two tensors, gets only one of the two addresses.
        if unassigned == 0 { Ok(()) } else { Err(Refusal::ListedTwice) }
    }

    /// Returns the assignments in order.
    fn iter(&self) -> impl Iterator<Item = Assignment> {
        self.list.iter().map(|&Entry { tensor, buffer, chunk, offset }| match buffer {
            VIEW => Assignment::View(tensor),
            _ => Assignment::Place(tensor, Address { buffer: buffer.into(), chunk: chunk.into(), offset }),
        })
    }
}

impl Entry {
    /// Returns the entry of a tensor that takes `alloc_size` bytes at an address of `plan`.
    #[inline]
    fn at(plan: &GraphPlan, tensor: TensorId, Address { buffer, chunk, offset }: Address, alloc_size: Bytes) -> Self {
        let size = plan.buffers[buffer as usize].placement.chunks.get(chunk as usize).copied().unwrap_or(0);
        let is_inside = offset.checked_add(alloc_size).is_some_and(|end| end <= size);
        match (u16::try_from(buffer), u16::try_from(chunk)) {
            (Ok(buffer), Ok(chunk)) if is_inside && buffer != VIEW => Self { tensor, buffer, chunk, offset },
            _ => Self { tensor, buffer: 0, chunk: 0, offset: OUTSIDE },
        }
    }
}

fn checked(tensor: TensorRef<'_>, status: Result<(), InitFailed>) -> Result<(), Refusal> {
    status.map_err(|_| Refusal::InitFailed { tensor: tensor.name() })
}

/// Returns `true` for a view without memory whose root has some. An empty root in an empty buffer has no address, and
/// ggml aborts on views of it; they need none either.
fn is_unplaced_view(tensor: TensorRef<'_>) -> bool {
    let has_address = |root: TensorRef<'_>| !root.buffer().is_null() && !root.data().is_null();
    tensor.buffer().is_null() && tensor.view_source().is_some_and(has_address)
}
/// Returns `true` if every tensor has a larger id than the tensors that it refers to.
fn is_in_order(graph: &Graph) -> bool {
    let comes_after = |(id, tensor): (TensorId, &Tensor)| tensor.view.is_none_or(|view| view.root <= id);
    graph.last_users().is_some() && (0..).zip(graph.tensors()).all(comes_after)
}

/// Returns the tensors in ggml's order, but with roots before their views even if a control dependency reads a view
/// first.
fn order(graph: &Graph) -> Vec<TensorId> {
    let mut is_listed = vec![false; graph.tensors().len()];
    let mut order = Vec::with_capacity(graph.tensors().len());
    let mut visit = |id: TensorId| {
        for id in [graph.root(id), id] {
            if !std::mem::replace(&mut is_listed[id as usize], true) {
                order.push(id);
            }
        }
    };
    graph.leafs().iter().for_each(|&leaf| visit(leaf));
    for &node in graph.nodes() {
        graph.sources(node).iter().for_each(|&source| visit(source));
        visit(node);
    }
    order
}

#[cfg(test)]
mod tests {
    use crate::graph::tests::sketch::{BUFFER, Sketch};
    use crate::graph::{BufferSpec, Rules};

    use super::*;

    /// A graph over two buffers, the second in chunks: an input, nodes in each buffer, and a view.
    fn sketch() -> (Sketch, TensorId) {
        let mut sketch = Sketch::with_buffers(&[BUFFER, BufferSpec { max_chunk: Some(64), ..BUFFER }]);
        let input = sketch.leaf(32);
        let nodes = [64, 48, 64].map(|size| sketch.node(size, &[input]));
        for node in nodes {
            sketch.draft(node).buffer = 1;
        }
        let view = sketch.view(nodes[1], 16, 32);
        sketch.node(16, &[nodes[0], view, nodes[2]]);
        (sketch, view)
    }

    #[test]
    fn tensors_have_the_addresses_of_the_plan_and_views_none() {
        let (sketch, view) = sketch();
        let (graph, plan) = (sketch.graph(), sketch.plan(Rules::ALL));
        assert!(plan.buffers[1].placement.chunks.len() > 1);
        let assignments = Assignments::new(&graph, &plan, graph.tensors().len());
        let mut placed = 0;
        for (id, assignment) in (0..).zip(assignments.iter()) {
            match assignment {
                Assignment::Place(tensor, address) => {
                    assert_eq!((tensor, Some(address)), (id, plan.placed(id).map(|(address, _)| address)));
                    placed += 1;
                }
                Assignment::View(tensor) => assert_eq!((tensor, id), (view, view)),
            }
        }
        assert_eq!((placed, assignments.placed()), (5, 5));
    }

    #[test]
    fn tensors_that_do_not_lie_in_their_chunk_have_an_offset_outside_of_it() {
        let (sketch, _) = sketch();
        let (graph, mut plan) = (sketch.graph(), sketch.plan(Rules::ALL));
        plan.buffers[1].placement.chunks[1] -= 1;
        let assignments = Assignments::new(&graph, &plan, graph.tensors().len());
        let outside =
            assignments.iter().filter(|it| matches!(it, Assignment::Place(_, address) if address.offset == OUTSIDE));
        let expected = graph.nodes().iter().filter(|&&id| {
            plan.placed(id).is_some_and(|(address, size)| {
                (address.buffer, address.chunk) == (1, 1) && address.offset + size > plan.buffers[1].placement.chunks[1]
            })
        });
        let expected = expected.count();
        assert!(expected > 0);
        assert_eq!(outside.count(), expected);
    }
}
