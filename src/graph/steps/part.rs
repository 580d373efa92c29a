//! The plan of one part.

use std::collections::HashMap;
use std::ops::Range;

use crate::graph::{
    Address, BufferIndex, BufferSpec, Graph, GraphPlan, PlanError, Requests, Sizes, TensorId, Workspace, live_ranges,
    plan,
};
use crate::placement::{Bytes, Step};

use super::owners::{Owner, owners};

/// A tensor in the compute buffer of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedTensor {
    /// The tensor, which is not a view.
    pub tensor: TensorId,
    /// Where it lies.
    pub address: Address,
    /// Bytes that its buffer type requires for it, before padding.
    pub alloc_size: Bytes,
}

/// The plan of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartPlan {
    /// The nodes of the part.
    pub nodes: Range<Step>,
    /// By buffer, the bytes of each chunk of the compute buffer.
    pub chunks: Vec<Vec<Bytes>>,
    /// The tensors in the compute buffer.
    pub placed: Vec<PlacedTensor>,
    /// Bytes of tensors that cross the cuts of this part, or pass it, in their own memory meanwhile.
    pub crossing: Bytes,
}

impl PartPlan {
    /// Returns the bytes of the compute buffer.
    pub fn compute(&self) -> Bytes {
        self.chunks.iter().flatten().fold(0, |sum: Bytes, &chunk| sum.saturating_add(chunk))
    }

    /// Returns the bytes of the compute buffer and of what crosses.
    pub fn total(&self) -> Bytes {
        self.compute().saturating_add(self.crossing)
    }
}

/// Plans parts of a graph.
pub struct PartPlanner<'a> {
    graph: &'a Graph,
    buffers: &'a [BufferSpec],
    requests: Requests<'a>,
    sizes: &'a mut dyn Sizes,
    known_sizes: HashMap<(TensorId, BufferIndex), Bytes>,
    owners: Vec<Owner>,
    /// By tensor, its root among the owners.
    owner_of: Vec<Option<u32>>,
}

impl std::fmt::Debug for PartPlanner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartPlanner").field("owners", &self.owners).finish_non_exhaustive()
    }
}

impl<'a> PartPlanner<'a> {
    /// Prepares for parts of `graph`. The size of each tensor is queried once per buffer.
    pub fn new(graph: &'a Graph, buffers: &'a [BufferSpec], requests: Requests<'a>, sizes: &'a mut dyn Sizes) -> Self {
        let owners = owners(graph, buffers, requests, &mut |id, buffer| sizes.alloc_size(id, buffer));
        let mut of_roots = vec![None; graph.tensors().len()];
        (0..).zip(&owners).for_each(|(at, owner)| of_roots[owner.tensor as usize] = Some(at));
        let ids = (0..).take(graph.tensors().len());
        let owner_of = ids.map(|id: TensorId| of_roots[graph.root(id) as usize]).collect();
        Self { graph, buffers, requests, sizes, known_sizes: HashMap::new(), owners, owner_of }
    }

    /// Returns the graph.
    pub fn graph(&self) -> &'a Graph {
        self.graph
    }

    /// Returns the tensors that own memory.
    pub fn owners(&self) -> &[Owner] {
        &self.owners
    }

    /// Checks that the bytes of all owners can be added up.
    ///
    /// # Errors
    /// [`PlanError`] when they overflow.
    pub fn check_total(&self) -> Result<(), PlanError> {
        let mut sum: Bytes = 0;
        for owner in &self.owners {
            sum = sum.saturating_add(owner.size);
            if sum > Bytes::MAX / 2 {
                return Err(PlanError::TooLarge { buffer: owner.buffer, bytes: sum });
            }
        }
        Ok(())
    }

    /// Returns, by owner, the source of the graph that it is computed in place of when the graph is planned as a whole.
    pub fn in_place_sources(&mut self) -> Vec<Option<TensorId>> {
        let Self { graph, buffers, requests, .. } = *self;
        let sizes: &mut dyn Sizes = &mut |id, buffer| self.size(id, buffer);
        let found = live_ranges(graph, buffers, requests, sizes, &[], &mut Workspace::default());
        let source = |owner: &Owner| found.allocations[owner.tensor as usize].and_then(|it| it.in_place_of);
        self.owners.iter().map(source).collect()
    }

    /// Returns the bytes of the owners that are not inside `part`, but that its nodes touch or that live beyond it on
    /// both sides.
    pub fn crossing(&self, part: &Range<Step>) -> Bytes {
        let is_live = |owner: &&Owner| !owner.is_kept && owner.first < part.end && owner.last >= part.start;
        let crossing = self.owners.iter().filter(is_live).filter(|owner| !owner.is_inside(part));
        crossing.map(|owner| owner.size).fold(0, Bytes::saturating_add)
    }

    /// Plans the compute buffer of `part`.
    ///
    /// # Errors
    /// [`PlanError`] when sizes overflow.
    pub fn plan(&mut self, part: &Range<Step>) -> Result<PartPlan, PlanError> {
        let part_graph = self.part_graph(part);
        let planned = self.plan_graph(&part_graph, part)?;
        let place = |&tensor: &TensorId| {
            let (address, alloc_size) = planned.placed(tensor)?;
            Some(PlacedTensor { tensor, address, alloc_size })
        };
        let placed = part_graph.nodes().iter().filter_map(place).collect();
        let chunks = planned.buffers.iter().map(|buffer| buffer.placement.chunks.clone()).collect();
        Ok(PartPlan { nodes: part.clone(), chunks, placed, crossing: self.crossing(part) })
    }

    /// Returns `part` as a separate graph, in which all memory but that of the compute buffer exists.
    pub fn part_graph(&self, part: &Range<Step>) -> Graph {
        let is_inside = |owner: Option<u32>| owner.is_some_and(|owner| self.owners[owner as usize].is_inside(part));
        self.graph.part(part, |tensor| is_inside(self.owner_of[tensor as usize]))
    }

    /// Plans what [`PartPlanner::part_graph`] returned for `part`.
    ///
    /// # Errors
    /// [`PlanError`] when sizes overflow.
    pub fn plan_graph(&mut self, part_graph: &Graph, part: &Range<Step>) -> Result<GraphPlan, PlanError> {
        let Self { buffers, requests, .. } = *self;
        let nodes = &requests.nodes[part.start as usize..part.end as usize];
        let requests = Requests { leafs: &[], nodes };
        let sizes: &mut dyn Sizes = &mut |id: TensorId, buffer: BufferIndex| self.size(id, buffer);
        plan(part_graph, buffers, requests, sizes, &mut Workspace::default())
    }

    /// Plans the graph as a whole, for comparison.
    ///
    /// # Errors
    /// [`PlanError`] when sizes overflow.
    pub fn plan_whole(&mut self) -> Result<GraphPlan, PlanError> {
        let Self { graph, buffers, requests, .. } = *self;
        let sizes: &mut dyn Sizes = &mut |id: TensorId, buffer: BufferIndex| self.size(id, buffer);
        plan(graph, buffers, requests, sizes, &mut Workspace::default())
    }

    fn size(&mut self, id: TensorId, buffer: BufferIndex) -> Bytes {
        let Self { sizes, known_sizes, .. } = self;
        *known_sizes.entry((id, buffer)).or_insert_with(|| sizes.alloc_size(id, buffer))
    }
}
