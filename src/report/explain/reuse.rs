//! Memory saved by sharing, and what the addresses cost on the device.

use std::cmp::Reverse;

use crate::graph::{BufferIndex, BufferSpec, Flags, Op, Rules, TensorId};
use crate::placement::{Bytes, padded};

use super::case::{Case, PlannedGraph};
use super::explanation::{FreedInput, KernelUse, Reuse};
use super::named::Alias;

impl Case<'_> {
    /// Returns the sharing in a buffer, whose bound would be `lower_bound_without` sharing.
    pub fn reuse(&self, buffer: usize, lower_bound_without: Option<Bytes>) -> Reuse {
        let members = self.in_block[buffer].values().iter();
        let mut in_place: Vec<Alias> = members.filter_map(|&id| self.in_place(id)).collect();
        let mut inside_concat = self.inside_concat(buffer);
        let mut unread_inputs = self.unread_inputs(buffer);
        in_place.sort_by_key(|alias| (Reverse(alias.bytes), alias.step));
        inside_concat.sort_by_key(|alias| (Reverse(alias.bytes), alias.step));
        let mut inactive = self.inactive(buffer);
        unread_inputs.sort_by_key(|freed| Reverse(freed.bytes));
        inactive.sort_by_key(|freed| Reverse(freed.bytes));
        let shared = in_place.iter().chain(&inside_concat).map(|alias| alias.bytes);
        let freed = unread_inputs.iter().chain(&inactive).map(|freed| freed.bytes);
        let bytes = shared.chain(freed).fold(0, Bytes::saturating_add);
        Reuse { in_place, inside_concat, unread_inputs, inactive, bytes, lower_bound_without }
    }

    fn in_place(&self, id: TensorId) -> Option<Alias> {
        let allocation = self.planned.plan.allocations[id as usize]?;
        let memory_of = self.named(allocation.in_place_of?);
        Some(Alias {
            tensor: self.named(id),
            step: self.uses.step[id as usize]?,
            bytes: self.bytes(allocation),
            memory_of,
        })
    }

    /// Returns the operands in the block of the CONCAT that reads them.
    fn inside_concat(&self, buffer: usize) -> Vec<Alias> {
        let graph = &self.planned.snapshot.graph;
        let is_concat = |&&id: &&TensorId| graph.tensor(id).op == Op::Concat && self.uses.step[id as usize].is_some();
        let concats = self.in_block[buffer].values().iter().filter(is_concat);
        let mut found = Vec::new();
        for (&node, allocation) in concats.filter_map(|node| Some((node, self.allocation(*node, buffer)?))) {
            for &source in graph.sources(node) {
                let own = self.allocation(source, buffer).filter(|own| own.block == allocation.block);
                let (Some(own), step) = (own, self.uses.step[source as usize].unwrap_or(0)) else { continue };
                let (tensor, memory_of) = (self.named(source), self.named(node));
                found.push(Alias { tensor, step, bytes: self.bytes(own), memory_of });
            }
        }
        found
    }

    fn unread_inputs(&self, buffer: usize) -> Vec<FreedInput> {
        let graph = &self.planned.snapshot.graph;
        if !self.planned.buffers[buffer].rules.unread_inputs {
            return Vec::new();
        }
        let is_unread = |&id: &TensorId| graph.tensor(id).flags.has(Flags::INPUT) && !self.is_read_by_inactive(id);
        self.freed_leafs(buffer).filter(is_unread).filter_map(|id| self.freed(id)).collect()
    }

    fn inactive(&self, buffer: usize) -> Vec<FreedInput> {
        let inactive = self.planned.plan.inactive_owners.iter().filter(|node| node.buffer as usize == buffer);
        let nodes = inactive.map(|node| node.tensor);
        let leafs = self.freed_leafs(buffer).filter(|&id| self.is_read_by_inactive(id));
        nodes.chain(leafs).filter_map(|id| self.freed(id)).collect()
    }

    /// Returns the leafs that no computed node reads, and whose memory is free once the graph starts.
    fn freed_leafs(&self, buffer: usize) -> impl Iterator<Item = TensorId> {
        let (problem, graph) = (&self.planned.plan.problems[buffer], &self.planned.snapshot.graph);
        let is_freed = move |&id: &TensorId| {
            let is_unread = self.uses.references[id as usize].is_none() && self.uses.views[id as usize].is_empty();
            let block = self
                .allocation(id, buffer)
                .filter(|_| is_unread)
                .map(|allocation| problem.blocks()[allocation.block as usize]);
            block.is_some_and(|block| block.end_step == 1)
        };
        let is_leaf = |&id: &TensorId| self.uses.step[id as usize].is_none();
        let mut freed: Vec<TensorId> = self.in_block[buffer].values().iter().copied().filter(is_leaf).collect();
        freed.sort_unstable();
        freed.into_iter().filter(move |_| graph.steps() > 1).filter(is_freed)
    }

    fn is_read_by_inactive(&self, id: TensorId) -> bool {
        self.uses.read_by_inactive[id as usize]
    }

    fn freed(&self, id: TensorId) -> Option<FreedInput> {
        let (address, alloc_size) = self.planned.plan.placed(id)?;
        let bytes = padded(alloc_size, self.planned.buffers[address.buffer as usize].alignment);
        Some(FreedInput { tensor: self.named(id), bytes })
    }

    /// Returns the lower bound without any sharing, by buffer; `None` if no work is left or the bytes overflow.
    pub fn bounds_without_reuse(&self) -> Option<Vec<Bytes>> {
        let without = |buffer: &BufferSpec| BufferSpec {
            rules: Rules { in_place: buffer.rules.in_place, ..Rules::NONE },
            ..*buffer
        };
        // Without the rule "in-place" blocks would live a step longer. So the rule stays on, and no node may be in place.
        let buffers: Vec<BufferSpec> = self.planned.buffers.iter().map(without).collect();
        let mut edit = self.new_edit()?;
        let computed = edit.tensors_mut().filter(|tensor| !tensor.is_marker());
        computed.for_each(|tensor| tensor.set_op(Op::Unknown));
        self.try_edit(edit, &buffers).map(|trial| trial.bounds)
    }
}

/// Returns the cost of a plan's addresses on the device of a buffer.
pub fn kernels(planned: PlannedGraph<'_>, buffer: usize) -> Option<KernelUse> {
    let PlannedGraph { snapshot, plan, .. } = planned;
    let buffer = BufferIndex::try_from(buffer).ok()?;
    let at_plan = |root: TensorId| plan.placed(root).map(|(address, _)| address);
    let [planned, without_reuse] = snapshot.kernel_costs(buffer, [&at_plan, &|_| None])?;
    let ggml_alloc = snapshot.plan_as_ggml().ok().and_then(|plan| {
        let [costs] = snapshot.kernel_costs(buffer, [&|root| plan.placed(root).map(|(address, _)| address)])?;
        Some(costs)
    });
    Some(KernelUse { planned, ggml_alloc, without_reuse })
}
