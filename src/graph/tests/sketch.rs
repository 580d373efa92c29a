//! Graphs for tests, a call per tensor.

use std::ops::Range;

use crate::graph::{
    Allocation, BufferIndex, BufferSpec, Corruption, Flags, Graph, GraphPlan, InPlace, Layout, LiveRanges, Op,
    PlanError, Requests, Retained, Rules, Slots, Tensor, TensorId, View, Wishes, Workspace, simulate,
};
use crate::placement::{Bytes, Defect, Effort, Location, Step, padded, validate};

/// One buffer type without a limit; sizes in these tests are usually multiples of its alignment.
pub const BUFFER: BufferSpec = BufferSpec { alignment: 16, max_chunk: None, rules: Rules::NONE, effort: Effort::QUICK };

/// Which list of the graph a tensor is in.
#[derive(Clone, Copy, PartialEq)]
pub enum List {
    Leafs,
    Nodes,
    /// Only referred to.
    None,
}

/// A tensor that can still be changed.
pub struct Draft {
    pub tensor: Tensor,
    pub layout: Layout,
    pub list: List,
    pub sources: Vec<TensorId>,
    /// Bytes that the buffer type requires, before padding.
    pub size: Bytes,
    pub nbytes: Bytes,
    pub buffer: BufferIndex,
}

/// A graph under construction. Tensors are listed, and nodes executed, in the order in which they are added. Rules are
/// set when it is planned.
pub struct Sketch {
    pub buffers: Vec<BufferSpec>,
    pub drafts: Vec<Draft>,
    pub retained: Vec<Retained>,
}

impl Sketch {
    pub fn new() -> Self {
        Self::with_buffers(&[BUFFER])
    }

    pub fn with_buffers(buffers: &[BufferSpec]) -> Self {
        Self { buffers: buffers.to_vec(), drafts: Vec::new(), retained: Vec::new() }
    }

    pub fn add(&mut self, list: List, size: Bytes, sources: &[TensorId]) -> TensorId {
        let ne = [i64::try_from(size).expect("sizes are small"), 1, 1, 1];
        let layout = Layout { element: 0, ne, nb: [1, size, size, size] };
        let mut tensor = Tensor::new();
        tensor.op = if list == List::Nodes { Op::MulMat } else { Op::None };
        let sources = sources.to_vec();
        self.drafts.push(Draft { tensor, layout, list, sources, size, nbytes: size, buffer: 0 });
        TensorId::try_from(self.drafts.len() - 1).expect("few tensors")
    }

    pub fn leaf(&mut self, size: Bytes) -> TensorId {
        self.add(List::Leafs, size, &[])
    }

    pub fn node(&mut self, size: Bytes, sources: &[TensorId]) -> TensorId {
        self.add(List::Nodes, size, sources)
    }

    /// A node that may write over a source of the same size.
    pub fn in_place(&mut self, size: Bytes, sources: &[TensorId]) -> TensorId {
        let id = self.node(size, sources);
        let tensor = &mut self.draft(id).tensor;
        (tensor.op, tensor.in_place) = (Op::Add, InPlace::Listed(Slots::ALL));
        id
    }

    /// A node that puts one source after the other.
    pub fn concat(&mut self, sources: [TensorId; 2], size: Bytes) -> TensorId {
        let id = self.node(size, &sources);
        self.draft(id).tensor.op = Op::Concat;
        id
    }

    /// A node that is a view of its source.
    pub fn view(&mut self, root: TensorId, offset: Bytes, size: Bytes) -> TensorId {
        let id = self.node(size, &[root]);
        self.draft(id).tensor.view = Some(View { root, offset });
        self.draft(id).tensor.op = Op::View;
        id
    }

    /// A node that writes `source` into the memory of a root.
    pub fn copy(&mut self, source: TensorId, root: TensorId, size: Bytes) -> TensorId {
        let id = self.view(root, 0, size);
        self.draft(id).sources = vec![source, root];
        self.draft(id).tensor.op = Op::Cpy;
        id
    }

    /// A view that is in no list.
    pub fn unlisted_view(&mut self, root: TensorId, offset: Bytes, size: Bytes) -> TensorId {
        let id = self.view(root, offset, size);
        self.draft(id).list = List::None;
        id
    }

    /// Adds a control dependency.
    pub fn marker(&mut self, sources: &[TensorId]) -> TensorId {
        let id = self.node(0, sources);
        self.draft(id).tensor.op = Op::None;
        id
    }

    pub fn draft(&mut self, id: TensorId) -> &mut Draft {
        &mut self.drafts[id as usize]
    }

    pub fn flag(&mut self, id: TensorId, flag: Flags) {
        self.draft(id).tensor.flags.0 |= flag.0;
    }

    pub fn retain(&mut self, tensor: TensorId, until: Option<TensorId>) {
        self.retained.push(Retained { tensor, until });
    }

    pub fn graph(&self) -> Graph {
        let mut graph = Graph::with_capacity(self.drafts.len());
        for draft in &self.drafts {
            let id = graph.add(draft.tensor.clone(), draft.layout.by_ref());
            graph.push_sources(draft.sources.iter().copied());
            match draft.list {
                List::Leafs => graph.list_leafs([id]),
                List::Nodes => graph.list_nodes([id]),
                List::None => {}
            }
        }
        graph.set_retention(self.retained.iter().copied().collect());
        graph
    }

    /// Returns the buffers requested for the tensors of a list.
    pub fn requests(&self, list: List) -> Vec<BufferIndex> {
        self.drafts.iter().filter(|draft| draft.list == list).map(|draft| draft.buffer).collect()
    }

    pub fn buffers_with(&self, rules: Rules) -> Vec<BufferSpec> {
        self.buffers.iter().map(|&buffer| BufferSpec { rules, ..buffer }).collect()
    }

    pub fn live_ranges(&self, rules: Rules) -> LiveRanges {
        self.live_ranges_in(&self.buffers_with(rules))
    }

    pub fn live_ranges_in(&self, buffers: &[BufferSpec]) -> LiveRanges {
        let (leafs, nodes) = (self.requests(List::Leafs), self.requests(List::Nodes));
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let mut sizes = |id: TensorId, _: BufferIndex| self.drafts[id as usize].size;
        crate::graph::live_ranges(&self.graph(), buffers, requests, &mut sizes, &[], &mut Workspace::default())
    }

    pub fn try_plan(&self, rules: Rules) -> Result<GraphPlan, PlanError> {
        let (leafs, nodes) = (self.requests(List::Leafs), self.requests(List::Nodes));
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let mut sizes = |id: TensorId, _: BufferIndex| self.drafts[id as usize].size;
        crate::graph::plan(
            &self.graph(),
            &self.buffers_with(rules),
            requests,
            &mut sizes,
            Wishes::default(),
            &mut Workspace::default(),
        )
    }

    /// Plans, and asserts that the validator and the simulator accept the plan.
    pub fn plan(&self, rules: Rules) -> GraphPlan {
        let plan = self.try_plan(rules).expect("sizes are small");
        for (index, (problem, buffer)) in (0..).zip(plan.problems.iter().zip(&plan.buffers)) {
            match validate(problem, &buffer.placement) {
                // For a node without own bytes that is larger than the largest buffer.
                Err(Defect::ChunkTooLarge(chunk)) if self.has_inactive_as_large_as(&plan, index, chunk) => {}
                valid => assert_eq!(valid, Ok(())),
            }
        }
        assert_eq!(self.simulate(&plan), Ok(()));
        plan
    }

    fn has_inactive_as_large_as(&self, plan: &GraphPlan, buffer: BufferIndex, chunk: usize) -> bool {
        let size = plan.buffers[buffer as usize].placement.chunks[chunk];
        let alignment = self.buffers[buffer as usize].alignment;
        plan.inactive_owners.iter().any(|node| node.buffer == buffer && padded(node.alloc_size, alignment) == size)
    }

    pub fn simulate(&self, plan: &GraphPlan) -> Result<(), Corruption> {
        let nbytes: Vec<Bytes> = self.drafts.iter().map(|draft| draft.nbytes).collect();
        simulate(&self.graph(), plan, &nbytes)
    }
}

/// Returns the allocation of a tensor.
pub fn allocation(found: &LiveRanges, id: TensorId) -> Allocation {
    found.allocations[id as usize].expect("the tensor has memory")
}

/// Returns the live range of a tensor's block.
pub fn live_range(found: &LiveRanges, id: TensorId) -> Range<Step> {
    let allocation = allocation(found, id);
    let block = found.blocks[allocation.buffer as usize].blocks()[allocation.block as usize];
    block.first_step..block.end_step
}

/// Returns the location of a tensor's block, to be read or damaged.
pub fn location(plan: &mut GraphPlan, id: TensorId) -> &mut Location {
    let allocation = plan.allocations[id as usize].expect("the tensor has memory");
    &mut plan.buffers[allocation.buffer as usize].placement.locations[allocation.block as usize]
}
