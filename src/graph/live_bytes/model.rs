//! The live bytes after a set of nodes has run.
//!
//! They depend on the set alone, not on the order in which its nodes ran. So swapping nodes between two steps affects
//! no other step, and a set that is reached in two ways is searched once.

use crate::graph::lists::Lists;
use crate::graph::{Allocation, BufferIndex, BufferSpec, Flags, Graph, LiveRanges, TensorId};
use crate::placement::{Bytes, Step, padded};

/// Dense index of a [`Value`].
pub type ValueId = u32;

/// A tensor with memory to plan. It is live until its last use, or that of one of its views.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// Padded bytes.
    pub size: Bytes,
    /// The buffer of its memory.
    pub buffer: BufferIndex,
    /// Uses as a source, those of its views included; a node may use it several times.
    pub uses: u32,
    /// The most uses by one node.
    pub most_by_one: u32,
    /// True if its memory is free after the last use.
    pub ends: bool,
    /// True if it has memory before the first step.
    pub from_start: bool,
}

/// A graph as values that become live and die.
#[derive(Debug)]
pub struct Model {
    /// By value.
    pub values: Vec<Value>,
    /// How many buffers there are.
    pub buffers: usize,
    /// By tensor: its value, where it owns one.
    pub value_of: Vec<Option<ValueId>>,
    /// By step in the given order: the value that its node computes.
    computes: Vec<Option<ValueId>>,
    /// By step: values used before their def, which get memory here unless an earlier node used them.
    undefined: Lists<ValueId>,
    /// By step: the values that its node uses, and how often.
    uses: Lists<(ValueId, u32)>,
    /// By step: possible in-place sources, if no other node has uses of them left.
    in_place_sources: Lists<ValueId>,
}

impl Model {
    /// Builds the model. `found` has the live ranges of the given order, for the buffers and sizes of tensors and the
    /// inactive nodes.
    pub fn new(graph: &Graph, buffers: &[BufferSpec], found: &LiveRanges) -> Self {
        let mut builder = Builder::new(graph, buffers, found);
        let mut values = builder.values();
        builder.count_uses(&mut values);
        let steps = graph.nodes().len();
        let lists = || Lists::with_capacity(steps);
        let (mut undefined, mut uses, mut in_place_sources) = (lists(), Lists::with_capacity(steps), lists());
        for (step, &node) in (0..).zip(graph.nodes()) {
            let used = builder.add_uses(node, step, &mut uses);
            used.iter().for_each(|&(value, times)| {
                let most = &mut values[value as usize].most_by_one;
                *most = times.max(*most);
            });
            builder.add_undefined(&values, node, step, &mut undefined);
            builder.add_in_place_sources(&values, node, used, &mut in_place_sources);
        }
        let computes = graph.nodes().iter().map(|&node| builder.value_of[node as usize]).collect();
        let value_of = builder.value_of;
        Self { values, buffers: buffers.len(), value_of, computes, undefined, uses, in_place_sources }
    }

    /// Returns how many nodes there are.
    pub fn steps(&self) -> Step {
        Step::try_from(self.computes.len()).expect("fewer than 2^32 nodes")
    }

    /// Returns the value that the node of a step computes.
    #[inline]
    pub fn computes(&self, step: Step) -> Option<ValueId> {
        self.computes[step as usize]
    }

    /// Returns the values that a step uses before their def, which get memory there unless an earlier node used them.
    #[inline]
    pub fn undefined(&self, step: Step) -> &[ValueId] {
        self.undefined.of(step)
    }

    /// Returns the values that a step uses, and how often.
    #[inline]
    pub fn uses(&self, step: Step) -> &[(ValueId, u32)] {
        self.uses.of(step)
    }

    /// Returns the values in place of which a step may be computed, if no other node has uses of them left.
    #[inline]
    pub fn in_place_sources(&self, step: Step) -> &[ValueId] {
        self.in_place_sources.of(step)
    }

    /// Returns, by value, those of `steps` that use it, as positions among them.
    pub fn users(&self, steps: impl Iterator<Item = Step> + Clone) -> Lists<u32> {
        let uses = (0..).zip(steps).flat_map(|(at, step)| self.uses(step).iter().map(move |&(value, _)| (value, at)));
        Lists::collect(self.values.len(), uses)
    }

    /// Returns the padded bytes of a tensor's memory; 0 where it has none of its own to plan.
    pub fn size(&self, tensor: TensorId) -> Bytes {
        self.value_of[tensor as usize].map_or(0, |value| self.values[value as usize].size)
    }
}

struct Builder<'a> {
    graph: &'a Graph,
    buffers: &'a [BufferSpec],
    allocations: &'a [Option<Allocation>],
    /// By tensor: whether it is an inactive node. Its uses count only where no active node uses the source.
    is_inactive: Vec<bool>,
    /// By tensor: whether an active node uses it, or it is a leaf.
    is_used_or_leaf: Vec<bool>,
    /// By tensor: the step that computes it, and the last that uses it.
    defs: Vec<Option<Step>>,
    last_uses: Vec<Option<Step>>,
    /// By tensor: its value.
    value_of: Vec<Option<ValueId>>,
    /// By tensor: whether it, or a view of it, is retained to the end.
    is_kept: Vec<bool>,
    /// The steps that end retentions, with the tensors, sorted. Such a step counts as a use.
    retained_until: Vec<(Step, TensorId)>,
}

impl<'a> Builder<'a> {
    fn new(graph: &'a Graph, buffers: &'a [BufferSpec], found: &'a LiveRanges) -> Self {
        let count = graph.tensors().len();
        let (mut is_inactive, mut is_used_or_leaf) = (vec![false; count], vec![false; count]);
        found.inactive.iter().for_each(|&node| is_inactive[node as usize] = true);
        let active = graph.nodes().iter().filter(|&&node| !is_inactive[node as usize]);
        let used = active.flat_map(|&node| graph.sources(node)).chain(graph.leafs());
        used.for_each(|&id| is_used_or_leaf[id as usize] = true);
        let (defs, last_uses, value_of) = (vec![None; count], vec![None; count], vec![None; count]);
        let allocations = &found.allocations;
        let (is_kept, retained_until) = (vec![false; count], Vec::new());
        let mut builder = Self {
            graph,
            buffers,
            allocations,
            is_inactive,
            is_used_or_leaf,
            defs,
            last_uses,
            value_of,
            is_kept,
            retained_until,
        };
        let mut last_uses = std::mem::take(&mut builder.last_uses);
        for (step, &node) in (0..).zip(graph.nodes()) {
            builder.defs[node as usize] = Some(step);
            builder.uses(node).for_each(|source| last_uses[source as usize] = Some(step));
        }
        builder.last_uses = last_uses;
        builder.retain();
        builder
    }

    /// Notes the retained tensors. A retention that ends before the def of its tensor has no effect.
    fn retain(&mut self) {
        for (tensor, until) in self.graph.retained() {
            if self.is_inactive[tensor as usize] {
                continue;
            }
            match until {
                None => self.is_kept[self.graph.root(tensor) as usize] = true,
                Some(until) if self.defs[tensor as usize].is_none_or(|def| def <= until) => {
                    self.retained_until.push((until, tensor));
                }
                Some(_) => {}
            }
        }
        self.retained_until.sort_unstable();
    }

    /// Returns the tensors that a step uses: the sources of its node whose uses count, and the tensors that are
    /// retained until it.
    fn uses_at(&self, step: Step, node: TensorId) -> impl Iterator<Item = TensorId> {
        let first = self.retained_until.partition_point(|&(until, _)| until < step);
        let retained = self.retained_until[first..].iter().take_while(move |&&(until, _)| until == step);
        self.uses(node).chain(retained.map(|&(_, tensor)| tensor))
    }

    /// Returns the sources of a node whose uses count.
    fn uses(&self, node: TensorId) -> impl Iterator<Item = TensorId> {
        let is_active = !self.is_inactive[node as usize];
        let counts = move |source: &TensorId| {
            is_active || !(self.is_used_or_leaf[*source as usize] || self.is_inactive[*source as usize])
        };
        self.graph.sources(node).iter().copied().filter(counts)
    }

    fn values(&mut self) -> Vec<Value> {
        let mut values = Vec::new();
        let mut is_leaf = vec![false; self.graph.tensors().len()];
        self.graph.leafs().iter().for_each(|&leaf| is_leaf[leaf as usize] = true);
        let mut is_used_by_inactive = vec![false; self.graph.tensors().len()];
        let inactive = self.graph.nodes().iter().filter(|&&node| self.is_inactive[node as usize]);
        for &source in inactive.flat_map(|&node| self.graph.sources(node)) {
            is_used_by_inactive[source as usize] = true;
        }
        let mut has_view = vec![false; self.graph.tensors().len()];
        let active = (0..).zip(self.graph.tensors()).filter(|(id, _): &(TensorId, _)| !self.is_inactive[*id as usize]);
        active.filter_map(|(_, it)| it.view).for_each(|view| has_view[view.root as usize] = true);
        for (id, (allocation, tensor)) in (0..).zip(self.allocations.iter().zip(self.graph.tensors())) {
            let Some(allocation) = allocation else { continue };
            let is_unused = is_leaf[id as usize] && self.last_uses[id as usize].is_none() && !has_view[id as usize];
            let ends_early =
                tensor.flags.has(Flags::INPUT) && self.buffers[allocation.buffer as usize].rules.unread_inputs;
            let is_output = tensor.flags.has(Flags::OUTPUT) || self.is_kept[id as usize];
            let is_kept = is_output || !(ends_early || is_used_by_inactive[id as usize]);
            if is_unused && !is_kept {
                continue;
            }
            self.value_of[id as usize] = ValueId::try_from(values.len()).ok();
            values.push(Value {
                size: padded(allocation.alloc_size, self.buffers[allocation.buffer as usize].alignment),
                buffer: allocation.buffer,
                uses: 0,
                most_by_one: 0,
                ends: !is_output,
                from_start: is_leaf[id as usize] || tensor.flags.has(Flags::INPUT),
            });
        }
        values
    }

    /// Counts uses, and finds the values that last to the end: without uses after their def, with a view without uses
    /// after its def, or with a view that is an output.
    fn count_uses(&self, values: &mut [Value]) {
        let mut used_later = vec![false; values.len()];
        for (step, &node) in (0..).zip(self.graph.nodes()) {
            for value in self.uses_at(step, node).filter_map(|used| self.value(used)) {
                values[value as usize].uses += 1;
            }
            for source in self.uses(node) {
                let Some(value) = self.value(source) else { continue };
                let def = self.defs[self.graph.root(source) as usize];
                used_later[value as usize] |= def.is_none_or(|def| def <= step);
            }
        }
        let views = (0..).zip(self.graph.tensors()).filter(|(_, tensor)| tensor.view.is_some());
        for (id, tensor) in views.filter(|(id, _): &(TensorId, _)| !self.is_inactive[*id as usize]) {
            let Some(value) = self.value(id) else { continue };
            let (def, last_use) = (self.defs[id as usize], self.last_uses[id as usize]);
            let counts = last_use.is_some() || (def.is_some() && !tensor.is_marker());
            let is_unused = counts && last_use < def.or(Some(0));
            values[value as usize].ends &= !is_unused && !tensor.flags.has(Flags::OUTPUT);
        }
        for (value, used_later) in values.iter_mut().zip(used_later) {
            value.ends &= used_later;
        }
    }

    fn value(&self, id: TensorId) -> Option<ValueId> {
        self.value_of[self.graph.root(id) as usize]
    }

    /// Adds what a node uses, and returns it.
    fn add_uses<'l>(&self, node: TensorId, step: Step, uses: &'l mut Lists<(ValueId, u32)>) -> &'l [(ValueId, u32)] {
        for value in self.uses_at(step, node).filter_map(|source| self.value(source)) {
            match uses.open().iter_mut().find(|(used, _)| *used == value) {
                Some((_, times)) => *times += 1,
                None => uses.add((value, 1)),
            }
        }
        uses.end()
    }

    fn add_undefined(&self, values: &[Value], node: TensorId, step: Step, undefined: &mut Lists<ValueId>) {
        for &source in self.graph.sources(node) {
            let Some(value) = self.value(source) else { continue };
            let is_defined = self.defs[source as usize].is_some_and(|def| def <= step);
            let is_no_view = self.value_of[source as usize].is_some();
            let is_undefined = !is_defined && is_no_view && !values[value as usize].from_start;
            if is_undefined && !undefined.open().contains(&value) {
                undefined.add(value);
            }
        }
        undefined.end();
    }

    /// Adds the sources whose memory the node may take, with one use by the node and enough bytes.
    fn add_in_place_sources(
        &self,
        values: &[Value],
        node: TensorId,
        used: &[(ValueId, u32)],
        in_place_sources: &mut Lists<ValueId>,
    ) {
        let sources = self.graph.sources(node);
        // A node that uses itself gets its memory as a source does.
        if let Some(own) = self.value_of[node as usize].filter(|_| !sources.contains(&node)) {
            let own = values[own as usize];
            let rules = &self.buffers[own.buffer as usize].rules;
            for (slot, &source) in sources.iter().enumerate() {
                let Some(value) = self.value(source) else { continue };
                let candidate = values[value as usize];
                let is_last = used.contains(&(value, 1)) && candidate.ends;
                let suits = is_last && candidate.buffer == own.buffer && candidate.size >= own.size;
                if suits && self.graph.may_take_memory(node, (slot, source), rules) {
                    in_place_sources.add(value);
                }
            }
        }
        in_place_sources.end();
    }
}
