//! The walk over a graph that adds a block for each tensor.

use std::ops::Range;

use crate::graph::{BufferIndex, BufferSpec, Flags, Graph, InPlace, Op, Requests, Rules, Sizes, TensorId};
use crate::placement::{Bytes, Step};

use super::any_order::any_order;
use super::in_place::{InPlaceSearch, Known};
use super::inactive::InactiveNodes;
use super::last_uses::{FirstPass, Point, Workspace, consecutive_nodes, extend_retained, in_order};
use super::{Blocks, InPlaceSource};
use super::{InactiveNode, LiveRanges};

/// Finds the live ranges of all tensors of `graph` that need memory. The inputs `kept`, each with its buffer, are live
/// from the start to the end. Queries the size of each tensor once per buffer. Compiled for each kind of sizes, which
/// is faster; `dyn Sizes` takes less code.
pub fn live_ranges<S: Sizes + ?Sized>(
    graph: &Graph,
    buffers: &[BufferSpec],
    requests: Requests<'_>,
    sizes: &mut S,
    kept: &[(TensorId, BufferIndex)],
    workspace: &mut Workspace,
) -> LiveRanges {
    let may_be_inactive = |buffer: BufferIndex| buffers[buffer as usize].rules.inactive;
    let FirstPass { leafs, inputs, mut last_uses, uses_before_def, inactive } =
        first_pass(workspace, graph, requests, may_be_inactive);
    kept.iter().for_each(|&(input, _)| last_uses.points[input as usize] = Point::KEPT);
    // With one buffer, no node can move to another.
    let used_by_inactive = if buffers.len() > 1 { inactive.last_uses(graph) } else { Vec::new() };
    let nodes = inactive.nodes();
    let mut inactive = std::mem::take(&mut workspace.inactive);
    inactive.clear();
    inactive.extend(nodes);
    let mut blocks = Blocks::new(workspace, buffers, graph.tensors().len(), graph.steps());
    blocks.beyond_ggml = !inactive.is_empty();
    let known = Known { graph, last_uses: &last_uses, used_by_inactive: &used_by_inactive };
    let mut walk = Walk { known, blocks, sizes, concats: Vec::new(), is_retained: retained_owners(graph) };
    leafs.iter().for_each(|&(leaf, buffer)| walk.allocate_leaf(leaf, buffer));
    inputs.into_iter().for_each(|(input, buffer)| walk.allocate(input, buffer, 0));
    kept.iter().for_each(|&(input, buffer)| walk.allocate_kept(input, buffer));
    let mut next = 0;
    for step in uses_before_def {
        walk.run(next..step, requests.nodes);
        walk.allocate_sources(step, requests.nodes);
        next = step;
    }
    let end = Step::try_from(graph.nodes().len()).expect("fewer than 2^32 nodes");
    walk.run(next..end, requests.nodes);
    let Walk { blocks: Blocks { allocations, mut inactive_owners, beyond_ggml, buffers, .. }, concats, .. } = walk;
    inactive.sort_unstable();
    inactive_owners.sort_unstable_by_key(|node| node.tensor);
    // `collect` would shrink the memory of `buffers`, which takes longer.
    let mut blocks = Vec::with_capacity(buffers.len());
    blocks.extend(buffers.into_iter().map(|buffer| buffer.list));
    (workspace.points, workspace.leafs) = (last_uses.points, leafs);
    LiveRanges { blocks, allocations, inactive, inactive_owners, concats, beyond_ggml }
}

/// Runs the first pass; `may_be_inactive` returns whether the rules of a buffer allow inactive nodes.
fn first_pass(
    workspace: &mut Workspace,
    graph: &Graph,
    requests: Requests<'_>,
    may_be_inactive: impl Fn(BufferIndex) -> bool,
) -> FirstPass {
    let consecutive = consecutive_nodes(graph);
    let is_allowed = |step| may_be_inactive(requests.nodes[step as usize]);
    let candidates = InactiveNodes::candidates(graph, consecutive, is_allowed);
    let mut found = in_order(workspace, graph, consecutive, requests, &candidates)
        .unwrap_or_else(|| any_order(graph, requests, &candidates));
    if !graph.retention().is_empty() {
        extend_retained(graph, &mut found.last_uses);
    }
    found
}

struct Walk<'a, S: ?Sized> {
    known: Known<'a>,
    blocks: Blocks,
    sizes: &'a mut S,
    /// The steps of CONCATs so far.
    concats: Vec<Step>,
    /// See [`retained_owners`].
    is_retained: Vec<bool>,
}

impl<S: Sizes + ?Sized> Walk<'_, S> {
    /// Allocates a leaf. An unused input is written before the first step, and may be overwritten in the second.
    fn allocate_leaf(&mut self, leaf: TensorId, buffer: BufferIndex) {
        self.allocate(leaf, buffer, 0);
        if self.known.last_uses.is_unused(leaf) && self.known.graph.tensor(leaf).flags.has(Flags::INPUT) {
            self.blocks.end_unused(leaf);
        }
    }

    /// Allocates an input from the start that ggml's own allocator allocates where it is listed or used.
    fn allocate_kept(&mut self, input: TensorId, buffer: BufferIndex) {
        if self.blocks.allocation(input).is_none() {
            self.allocate(input, buffer, 0);
        }
    }

    /// Allocates the nodes of `steps`; `buffers` has the requested buffer of each node.
    #[inline(never)]
    fn run(&mut self, steps: Range<Step>, buffers: &[BufferIndex]) {
        let (nodes, tensors) = (self.known.graph.nodes(), self.known.graph.tensors());
        let range = steps.start as usize..steps.end as usize;
        let nodes = nodes[range.clone()].iter().zip(&buffers[range]);
        for (step, (&node, &buffer)) in steps.zip(nodes) {
            let tensor = &tensors[node as usize];
            if tensor.is_owned() {
                let last_use = self.known.last_uses.points[node as usize];
                if last_use == Point::INACTIVE {
                    self.add_inactive(node, buffer);
                    continue;
                }
                if tensor.op == Op::Concat {
                    self.concats.push(step);
                }
                if self.blocks.allocation(node).is_none() {
                    let last_use = self.known.last_uses.step(last_use);
                    self.allocate_node(node, tensor.in_place, buffer, [step, last_use]);
                }
            }
        }
    }

    /// Allocates the sources of a step that are used before their def.
    #[cold]
    fn allocate_sources(&mut self, step: Step, buffers: &[BufferIndex]) {
        for &source in self.known.graph.sources(self.known.graph.nodes()[step as usize]) {
            let is_needed = self.known.graph.tensor(source).is_owned() && !self.known.last_uses.is_inactive(source);
            if is_needed && self.blocks.allocation(source).is_none() {
                self.allocate(source, buffers[step as usize], step);
            }
        }
    }

    /// Records an inactive node, without a block. Where ggml's own allocator may compute it in place, it has the
    /// address of its source: the buffer requested for it may be too small then.
    #[cold]
    fn add_inactive(&mut self, node: TensorId, buffer: BufferIndex) {
        let source = (0..)
            .zip(self.known.graph.sources(node))
            .find_map(|(slot, &source)| self.inactive_in_place(node, slot, source));
        let inactive = source.unwrap_or_else(|| InactiveNode {
            tensor: node,
            buffer,
            alloc_size: self.sizes.alloc_size(node, buffer),
            in_place_of: None,
        });
        self.blocks.inactive_owners.push(inactive);
    }

    /// Returns an inactive node in place of a source, where ggml's own list of operations allows it and it fits.
    fn inactive_in_place(&mut self, node: TensorId, slot: usize, source: TensorId) -> Option<InactiveNode> {
        let graph = self.known.graph;
        if !graph.may_take_memory(node, (slot, source), &Rules::GGML) {
            return None;
        }
        let allocation = self.blocks.allocation(source).map(|allocation| (allocation.buffer, allocation.alloc_size));
        let inactive = || self.blocks.inactive_owners.iter().rfind(|node| node.tensor == source);
        let (buffer, held) = allocation.or_else(|| inactive().map(|node| (node.buffer, node.alloc_size)))?;
        let alloc_size = self.sizes.alloc_size(node, buffer);
        (alloc_size <= held).then_some(InactiveNode { tensor: node, buffer, alloc_size, in_place_of: Some(source) })
    }

    /// Allocates a block for a tensor alone.
    fn allocate(&mut self, id: TensorId, buffer: BufferIndex, step: Step) {
        let alloc_size = self.sizes.alloc_size(id, buffer);
        self.blocks.add(id, buffer, step, self.known.last_uses.last_step(id), alloc_size);
    }

    /// Allocates a node, computed at a step and used until another: in place of a source, or in its own block.
    #[inline]
    fn allocate_node(&mut self, node: TensorId, in_place: InPlace, buffer: BufferIndex, [step, last_use]: [Step; 2]) {
        match self.in_place_source(node, in_place, buffer, step) {
            Ok(source) => self.blocks.add_in_place(node, source, step, last_use),
            Err(alloc_size) => {
                self.blocks.add(node, buffer, step, last_use, alloc_size);
                if !self.is_retained.is_empty() {
                    keep_fused_sources(self.known.graph, &self.is_retained, &mut self.blocks, node, step);
                }
            }
        }
    }

    /// Returns the source to compute the node in place of; where there is none, the bytes of the node in its buffer.
    #[inline]
    fn in_place_source(
        &mut self,
        node: TensorId,
        in_place: InPlace,
        buffer: BufferIndex,
        step: Step,
    ) -> Result<InPlaceSource, Bytes> {
        let Self { known, blocks, sizes, .. } = self;
        if in_place == InPlace::Never {
            return Err(sizes.alloc_size(node, buffer));
        }
        let (sources, now) = (known.graph.sources(node), known.last_uses.point(step));
        InPlaceSearch::<S> { known, blocks, node, in_place, sources, buffer, now, sizes, known_size: None }.find()
    }
}

/// Returns, by owner of memory, whether it or a view of it is retained; empty if nothing is.
fn retained_owners(graph: &Graph) -> Vec<bool> {
    let retained = graph.retention().list();
    let mut owners = vec![false; if retained.is_empty() { 0 } else { graph.tensors().len() }];
    retained.iter().for_each(|retained| owners[graph.root(retained.tensor) as usize] = true);
    owners
}

/// A backend fuses a node with at most this many nodes before it.
const FUSED: Step = 8;

/// Keeps the tensors that a backend may read while `node` runs at `step`, in its own memory since its source is
/// retained. `is_retained` has, by owner of memory, whether it or a view of it is retained.
///
/// Backends fuse a node with those before it whose results it alone reads, and then read their sources while they write
/// its result, without comparing addresses: ggml's own allocator would compute the node in place of such a result,
/// which does not overlap with its sources. So this concerns the operations in ggml's list alone.
#[cold]
fn keep_fused_sources(graph: &Graph, is_retained: &[bool], blocks: &mut Blocks, node: TensorId, step: Step) {
    let is_replaced = |(slot, &source): (usize, &TensorId)| {
        is_retained[graph.root(source) as usize] && graph.may_take_memory(node, (slot, source), &Rules::GGML)
    };
    if !graph.sources(node).iter().enumerate().any(is_replaced) {
        return;
    }
    let first = step.saturating_sub(FUSED);
    let mut fused = vec![node];
    for &earlier in graph.nodes()[first as usize..step as usize].iter().rev() {
        if fused.iter().any(|&later| graph.sources(later).contains(&earlier)) {
            fused.push(earlier);
        }
    }
    for &source in fused[1..].iter().flat_map(|&earlier| graph.sources(earlier)) {
        blocks.keep_through(graph.root(source), step);
    }
}
