//! How many bytes are alive once a set of nodes has run.
//!
//! That depends on the set alone, not on the order in which its nodes ran. So nodes can be swapped between two steps
//! without any other step noticing, and a set that was reached in two ways need be looked at once.

use crate::graph::{Allocation, BufferIndex, BufferSpec, Flags, Graph, LiveRanges, TensorId};
use crate::placement::{Bytes, Step, padded};

/// Dense index of a [`Value`].
pub type ValueId = u32;

/// A tensor that the plan gives memory to. It lives until the last mention of it or of one of its views.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// Padded bytes.
    pub size: Bytes,
    /// Whose memory it takes.
    pub buffer: BufferIndex,
    /// Mentions as a source, those of its views included; a node may mention it several times.
    pub mentions: u32,
    /// The most mentions by one node.
    pub most_by_one: u32,
    /// Is its memory free after the last mention?
    pub ends: bool,
    /// Does it have memory before the first step?
    pub from_start: bool,
}

/// What a node does to values.
#[derive(Clone, Debug, Default)]
pub struct NodeUse {
    /// What it computes.
    pub computes: Option<ValueId>,
    /// What gets its memory here, unless an earlier node has already made it get some: tensors that no node computes, or
    /// a later one does.
    pub touches: Vec<ValueId>,
    /// What it reads, and how often it names it.
    pub reads: Vec<(ValueId, u32)>,
    /// Whose memory it may take over, when nobody else still mentions it.
    pub donors: Vec<ValueId>,
}

/// A graph as bytes that come and go.
#[derive(Debug)]
pub struct Model {
    /// By value.
    pub values: Vec<Value>,
    /// By step in the given order.
    pub nodes: Vec<NodeUse>,
    /// How many buffers there are.
    pub buffers: usize,
}

impl Model {
    /// `found` is of the given order: it tells the buffer and the size of each tensor, and which nodes are inactive.
    pub fn new(graph: &Graph, buffers: &[BufferSpec], found: &LiveRanges) -> Self {
        let mut builder = Builder::new(graph, buffers, found);
        let mut values = builder.values();
        builder.count_mentions(&mut values);
        let nodes = (0..).zip(graph.nodes()).map(|(step, &node)| builder.node_use(&values, node, step));
        let nodes: Vec<NodeUse> = nodes.collect();
        for &(value, times) in nodes.iter().flat_map(|node| &node.reads) {
            let most = &mut values[value as usize].most_by_one;
            *most = times.max(*most);
        }
        Self { values, nodes, buffers: buffers.len() }
    }

    /// Bytes that are alive before the first step, by buffer.
    pub fn start(&self) -> Vec<Bytes> {
        let mut live = vec![0; self.buffers];
        for value in self.values.iter().filter(|value| value.from_start) {
            live[value.buffer as usize] += value.size;
        }
        live
    }
}

struct Builder<'a> {
    graph: &'a Graph,
    buffers: &'a [BufferSpec],
    allocations: &'a [Option<Allocation>],
    /// By tensor: is it an inactive node? Its mentions count only for what no other node mentions.
    is_inactive: Vec<bool>,
    /// By tensor: does an active node mention it, or is it a leaf?
    is_mentioned: Vec<bool>,
    /// By tensor: the step that computes it, and the last that mentions it.
    computed: Vec<Option<Step>>,
    last_mention: Vec<Option<Step>>,
    /// By tensor: its value.
    value_of: Vec<Option<ValueId>>,
}

impl<'a> Builder<'a> {
    fn new(graph: &'a Graph, buffers: &'a [BufferSpec], found: &'a LiveRanges) -> Self {
        let count = graph.tensors().len();
        let (mut is_inactive, mut is_mentioned) = (vec![false; count], vec![false; count]);
        found.inactive.iter().for_each(|&node| is_inactive[node as usize] = true);
        let active = graph.nodes().iter().filter(|&&node| !is_inactive[node as usize]);
        let mentioned = active.flat_map(|&node| graph.sources(node)).chain(graph.leafs());
        mentioned.for_each(|&id| is_mentioned[id as usize] = true);
        let (computed, last_mention, value_of) = (vec![None; count], vec![None; count], vec![None; count]);
        let allocations = &found.allocations;
        let mut builder =
            Self { graph, buffers, allocations, is_inactive, is_mentioned, computed, last_mention, value_of };
        for (step, &node) in (0..).zip(graph.nodes()) {
            builder.computed[node as usize] = Some(step);
            for source in builder.mentions(node) {
                builder.last_mention[source as usize] = Some(step);
            }
        }
        builder
    }

    /// What a node mentions, as far as that counts.
    fn mentions(&self, node: TensorId) -> Vec<TensorId> {
        let is_active = !self.is_inactive[node as usize];
        let counts = |source: &&TensorId| {
            is_active || !(self.is_mentioned[**source as usize] || self.is_inactive[**source as usize])
        };
        self.graph.sources(node).iter().filter(counts).copied().collect()
    }

    fn values(&mut self) -> Vec<Value> {
        let mut values = Vec::new();
        let mut is_leaf = vec![false; self.graph.tensors().len()];
        self.graph.leafs().iter().for_each(|&leaf| is_leaf[leaf as usize] = true);
        let mut is_read_by_inactive = vec![false; self.graph.tensors().len()];
        let inactive = self.graph.nodes().iter().filter(|&&node| self.is_inactive[node as usize]);
        for &source in inactive.flat_map(|&node| self.graph.sources(node)) {
            is_read_by_inactive[source as usize] = true;
        }
        let mut has_view = vec![false; self.graph.tensors().len()];
        let active = (0..).zip(self.graph.tensors()).filter(|(id, _): &(TensorId, _)| !self.is_inactive[*id as usize]);
        active.filter_map(|(_, it)| it.view).for_each(|view| has_view[view.root as usize] = true);
        for (id, (allocation, tensor)) in (0..).zip(self.allocations.iter().zip(self.graph.tensors())) {
            let Some(allocation) = allocation else { continue };
            let is_unread = is_leaf[id as usize] && self.last_mention[id as usize].is_none() && !has_view[id as usize];
            let ends_early =
                tensor.flags.has(Flags::INPUT) && self.buffers[allocation.buffer as usize].rules.unread_inputs;
            let is_kept = tensor.flags.has(Flags::OUTPUT) || !(ends_early || is_read_by_inactive[id as usize]);
            if is_unread && !is_kept {
                continue;
            }
            self.value_of[id as usize] = ValueId::try_from(values.len()).ok();
            values.push(Value {
                size: padded(allocation.alloc_size, self.buffers[allocation.buffer as usize].alignment),
                buffer: allocation.buffer,
                mentions: 0,
                most_by_one: 0,
                ends: !tensor.flags.has(Flags::OUTPUT),
                from_start: is_leaf[id as usize] || tensor.flags.has(Flags::INPUT),
            });
        }
        values
    }

    /// Counts mentions, and finds out what lasts to the end: what nobody mentions any more once it is computed, what has
    /// such a view, and what has a view that is an output.
    fn count_mentions(&self, values: &mut [Value]) {
        let mut read_later = vec![false; values.len()];
        for (step, &node) in (0..).zip(self.graph.nodes()) {
            for source in self.mentions(node) {
                let Some(value) = self.value(source) else { continue };
                values[value as usize].mentions += 1;
                let computed = self.computed[self.graph.root(source) as usize];
                read_later[value as usize] |= computed.is_none_or(|computed| computed <= step);
            }
        }
        let views = (0..).zip(self.graph.tensors()).filter(|(_, tensor)| tensor.view.is_some());
        for (id, tensor) in views.filter(|(id, _): &(TensorId, _)| !self.is_inactive[*id as usize]) {
            let Some(value) = self.value(id) else { continue };
            let (computed, mentioned) = (self.computed[id as usize], self.last_mention[id as usize]);
            let counts = mentioned.is_some() || (computed.is_some() && !tensor.is_marker());
            let unread = counts && mentioned < computed.or(Some(0));
            values[value as usize].ends &= !unread && !tensor.flags.has(Flags::OUTPUT);
        }
        for (value, read_later) in values.iter_mut().zip(read_later) {
            value.ends &= read_later;
        }
    }

    fn value(&self, id: TensorId) -> Option<ValueId> {
        self.value_of[self.graph.root(id) as usize]
    }

    fn node_use(&self, values: &[Value], node: TensorId, step: Step) -> NodeUse {
        let mut found = NodeUse { computes: self.value_of[node as usize], ..NodeUse::default() };
        for source in self.mentions(node) {
            let Some(value) = self.value(source) else { continue };
            match found.reads.iter_mut().find(|(read, _)| *read == value) {
                Some((_, times)) => *times += 1,
                None => found.reads.push((value, 1)),
            }
        }
        for &source in self.graph.sources(node) {
            let Some(value) = self.value(source) else { continue };
            let is_there = self.computed[source as usize].is_some_and(|computed| computed <= step);
            let is_named_itself = self.value_of[source as usize].is_some();
            let is_new = !is_there && is_named_itself && !values[value as usize].from_start;
            if is_new && !found.touches.contains(&value) {
                found.touches.push(value);
            }
        }
        // A node that names itself gets its memory as a source does.
        let names_itself = self.graph.sources(node).contains(&node);
        if !names_itself {
            found.donors = self.donors(values, node, &found);
        }
        found
    }

    /// Whoever is named once, looks like the node and is large enough.
    fn donors(&self, values: &[Value], node: TensorId, found: &NodeUse) -> Vec<ValueId> {
        let Some(own) = found.computes.map(|own| values[own as usize]) else { return Vec::new() };
        let (rules, operation) = (self.buffers[own.buffer as usize].rules, self.graph.tensor(node).operation);
        let allows = |(slot, &source): (usize, &TensorId)| {
            let tensor = self.graph.tensor(source);
            let value = self.value(source)?;
            let donor = values[value as usize];
            let through_view = tensor.view.is_none_or(|view| rules.views && view.offset == 0);
            let named_once = found.reads.contains(&(value, 1));
            let suits =
                through_view && named_once && donor.ends && donor.buffer == own.buffer && donor.size >= own.size;
            let looks_alike = || self.graph.look_alike(source, node);
            (rules.allow(operation, slot) && suits && looks_alike()).then_some(value)
        };
        self.graph.sources(node).iter().enumerate().filter_map(allows).collect()
    }
}
