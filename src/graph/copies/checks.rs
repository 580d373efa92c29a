//! Whether a producer can write where a copy would, and so early.

use crate::graph::order::Effect;
use crate::graph::{Layout, Strides, TensorId};
use crate::placement::Step;

use super::facts::{Memory, Target};
use super::find::Pass;
use super::found::{Becomes, Reason};
use super::moves::{Given, Move};
use super::producer::Producer;

/// With how many nodes before it another backend than the CPU's may compute a node as one.
const FUSED_ELSEWHERE: u8 = 8;

/// How far the search for a cycle goes before it expects one.
const MOST_VISITS: usize = 16;

impl Pass<'_> {
    /// Can the producer write there, and then?
    pub fn check(&mut self, found: &Move, step: Step) -> Result<(), Reason> {
        let node = found.producer.node;
        let root = found.place.root;
        let memory = self.state.facts.memory[root as usize];
        let on_cpu = match memory {
            Memory::Buffer { cpu, .. } => cpu,
            Memory::Context { .. } => true,
            Memory::Planned => self.state.facts.target == Target::Cpu,
        };
        if !self.may_write(found, on_cpu) {
            return Err(Reason::Layout);
        }
        if found.given == Given::ToProducer {
            return Ok(());
        }
        if matches!(memory, Memory::Buffer { .. }) && !(self.state.facts.runs_at)(node, root) {
            return Err(Reason::Device);
        }
        if found.given != Given::Already && !self.state.facts.has_slot[node as usize] {
            return Err(Reason::Slot);
        }
        if matches!(found.given, Given::To(wanted) if !self.comes_before(wanted, root, found.producer.step)) {
            return Err(Reason::Order);
        }
        self.check_order(found, step, on_cpu)
    }

    /// Can `wanted` be there, with the memory of `root`, before a node at `step` runs?
    fn comes_before(&self, wanted: TensorId, root: TensorId, step: Step) -> bool {
        let state = &self.state;
        let is_given = state.facts.memory[root as usize] != Memory::Planned
            || state.is_leaf[root as usize]
            || state.steps[root as usize].is_some_and(|at| at < step)
            || state.change(root).is_some_and(|change| change.becomes == Becomes::Place);
        is_given && !self.may_need(wanted, step)
    }

    /// Other devices than the CPU write what ggml made, at addresses like those that an allocator gives.
    fn may_write(&self, found: &Move, on_cpu: bool) -> bool {
        let facts = &self.state.facts;
        let node = found.producer.node;
        let own = self.state.graph.layout(node);
        let wanted = Layout { nb: found.nb, ..*own };
        let stays = found.given == Given::ToProducer && wanted.nb == own.tidied(own.nb[0]).nb;
        let can = facts.writes[node as usize];
        let can = if on_cpu { can } else { can.min(Strides::Contiguous) };
        let is_aligned = on_cpu || found.place.offset.is_multiple_of(facts.alignment);
        stays || (is_aligned && can.allows(own, &wanted))
    }

    /// Could making `wanted` need what a node at `step` computes? Only nodes behind it could.
    fn may_need(&self, wanted: TensorId, step: Step) -> bool {
        let state = &self.state;
        let mut left = vec![wanted];
        let mut visits = 0;
        while let Some(id) = left.pop() {
            let is_place = state.change(id).is_some_and(|change| change.becomes == Becomes::Place);
            if is_place || state.steps[id as usize].is_none_or(|at| at < step) {
                continue;
            }
            visits += 1;
            if state.facts.effects[id as usize] != Effect::View || visits > MOST_VISITS {
                return true;
            }
            left.extend(state.graph.sources(id));
        }
        false
    }

    /// Does nobody else use the memory between the producer and the copy? A producer may be computed as one with nodes
    /// before it: it then writes while their sources are read.
    fn check_order(&mut self, found: &Move, step: Step, on_cpu: bool) -> Result<(), Reason> {
        let Producer { node, step: from, .. } = found.producer;
        let region = self.state.region_at(found.place, &self.layout_of(found));
        let fused = if on_cpu { self.state.facts.fused[node as usize] } else { FUSED_ELSEWHERE };
        let first = self.first_fused(from, fused);
        let anything = self.anything[step as usize].is_some_and(|at| at >= first);
        if anything || self.touches.any(&region, first..step, from) {
            return Err(Reason::Order);
        }
        self.check_sources(found, on_cpu)
    }

    fn layout_of(&self, found: &Move) -> Layout {
        Layout { nb: found.nb, ..*self.state.graph.layout(found.producer.node) }
    }

    /// The first of `count` computing nodes before a step.
    fn first_fused(&self, step: Step, count: u8) -> Step {
        let computes = |&step: &Step| {
            let node = self.state.graph.nodes()[step as usize];
            !matches!(self.state.facts.effects[node as usize], Effect::View | Effect::Nothing)
        };
        (0..step).rev().filter(computes).take(usize::from(count)).last().unwrap_or(step)
    }

    /// What the producer reads must not lie where it would write, except exactly there, where it may be computed in place.
    fn check_sources(&self, found: &Move, on_cpu: bool) -> Result<(), Reason> {
        let state = &self.state;
        let node = found.producer.node;
        let layout = self.layout_of(found);
        let region = state.region_at(found.place, &layout);
        let operation = state.graph.tensor(node).operation;
        let mut overlaps = 0;
        for (slot, &source) in state.graph.sources(node).iter().enumerate() {
            let other = state.region(source);
            if source == node || !other.meets(&region) {
                continue;
            }
            let may = operation.may_write_over(slot) && (on_cpu || operation.is_listed());
            let element_size = layout.nb[0];
            let is_same = state.layout(source).tidied(element_size) == layout.tidied(element_size);
            overlaps += 1;
            if !may || !is_same || other.bytes.start != region.bytes.start || overlaps > 1 {
                return Err(Reason::Overlap);
            }
        }
        Ok(())
    }
}
