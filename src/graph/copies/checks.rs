//! Whether a producer can write where a copy would, at its earlier step.

use crate::graph::{Layout, Rules, Strides, TensorId};
use crate::placement::Step;

use super::moves::{CopyDestination, Move};
use super::state::{Pass, Producer};
use super::{CopyTarget, Reason, Storage};

/// With how many nodes before it another backend than the CPU's may fuse a node.
const FUSED_ELSEWHERE: u8 = 8;

/// Visits after which the search for a cycle assumes one.
const MOST_VISITS: usize = 16;

impl Pass<'_> {
    /// Checks that the producer can write there, at its step.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn check(&mut self, found: &Move, step: Step) -> Result<(), Reason> {
        let node = found.producer.node;
        let root = found.place.root;
        let memory = self.state.facts.tensors[root as usize].memory;
        let on_cpu = match memory {
            Storage::Buffer { cpu, .. } => cpu,
            Storage::Context { .. } => true,
            Storage::Planned => self.state.facts.target == CopyTarget::Cpu,
        };
        if !self.may_write(found, on_cpu) {
            return Err(Reason::Layout);
        }
        if found.destination == CopyDestination::Producer {
            return Ok(());
        }
        if matches!(memory, Storage::Buffer { .. }) && !(self.state.facts.runs_at)(node, root) {
            return Err(Reason::Device);
        }
        if found.destination != CopyDestination::Context && !self.state.facts.tensors[node as usize].has_slot {
            return Err(Reason::Slot);
        }
        if matches!(found.destination, CopyDestination::Tensor(destination) if !self.comes_before(destination, root, found.producer.step))
        {
            return Err(Reason::Order);
        }
        self.check_order(found, step, on_cpu)
    }

    /// Returns `true` if `destination` can exist, with the memory of `root`, before a node at `step` runs.
    fn comes_before(&self, destination: TensorId, root: TensorId, step: Step) -> bool {
        let state = &self.state;
        let is_given = state.facts.tensors[root as usize].memory != Storage::Planned
            || state.is_leaf[root as usize]
            || state.steps[root as usize].is_some_and(|at| at < step)
            || state.is_placeholder(root);
        is_given && !self.may_need(destination, step)
    }

    /// Returns `true` if the operation can write the layout. Devices other than the CPU write only what ggml created,
    /// at aligned addresses.
    fn may_write(&self, found: &Move, on_cpu: bool) -> bool {
        let facts = &self.state.facts;
        let node = found.producer.node;
        let own = self.state.graph.layout(node);
        let requested = Layout { nb: found.nb, ..*own };
        let stays = found.destination == CopyDestination::Producer && requested.nb == own.tidied(own.nb[0]).nb;
        let can = facts.tensors[node as usize].writes;
        let can = if on_cpu { can } else { can.min(Strides::Contiguous) };
        let is_aligned = on_cpu || found.place.offset.is_multiple_of(facts.alignment);
        stays || (is_aligned && can.allows(own, &requested))
    }

    /// Returns `true` if computing `destination` may need the result of the node at `step`. Only later nodes can.
    fn may_need(&self, destination: TensorId, step: Step) -> bool {
        let state = &self.state;
        let mut left = vec![destination];
        let mut visits = 0;
        while let Some(id) = left.pop() {
            if state.is_placeholder(id) || state.steps[id as usize].is_none_or(|at| at < step) {
                continue;
            }
            visits += 1;
            if !state.graph.tensor(id).op.is_view() || visits > MOST_VISITS {
                return true;
            }
            left.extend(state.graph.sources(id));
        }
        false
    }

    /// Checks that no other node accesses the memory between the producer and the copy. A producer may be fused with
    /// nodes before it: it then writes while their sources are read.
    fn check_order(&mut self, found: &Move, step: Step, on_cpu: bool) -> Result<(), Reason> {
        let Producer { node, step: from, .. } = found.producer;
        let region = self.state.region_at(found.place, &self.layout_of(found));
        let fused = if on_cpu { self.state.facts.tensors[node as usize].fused } else { FUSED_ELSEWHERE };
        let first = self.first_fused(from, fused);
        let anything = self.anything[step as usize].is_some_and(|at| at >= first);
        if anything || self.history.any(region, first..step, from) {
            return Err(Reason::Order);
        }
        self.check_sources(found, on_cpu)
    }

    fn layout_of(&self, found: &Move) -> Layout {
        Layout { nb: found.nb, ..*self.state.graph.layout(found.producer.node) }
    }

    /// Returns the first of `count` computing nodes before a step.
    fn first_fused(&self, step: Step, count: u8) -> Step {
        let computes = |&step: &Step| {
            let node = self.state.graph.nodes()[step as usize];
            !self.state.graph.tensor(node).op.computes_nothing()
        };
        (0..step).rev().filter(computes).take(usize::from(count)).last().unwrap_or(step)
    }

    /// Checks that the producer reads no memory where it would write, except exactly there, where it may be computed in
    /// place.
    fn check_sources(&self, found: &Move, on_cpu: bool) -> Result<(), Reason> {
        let state = &self.state;
        let node = found.producer.node;
        let layout = self.layout_of(found);
        let region = state.region_at(found.place, &layout);
        let (in_place, rules) = (state.graph.tensor(node).in_place, if on_cpu { Rules::ALL } else { Rules::GGML });
        let mut overlaps = 0;
        for (slot, &source) in state.graph.sources(node).iter().enumerate() {
            let other = state.region(source);
            if source == node || !other.shares_bytes(region) {
                continue;
            }
            let element_size = layout.nb[0];
            let is_same = state.edit.layout(source).tidied(element_size) == layout.tidied(element_size);
            overlaps += 1;
            if !rules.allow(in_place, slot) || !is_same || other.start != region.start || overlaps > 1 {
                return Err(Reason::Overlap);
            }
        }
        Ok(())
    }
}
