//! Is the plan of a graph right? Runs the graph in thought and keeps track of whose value every byte holds.
//!
//! Trusts no lifetimes: it looks only at the order of the nodes, at who reads whom, and at the addresses.

use std::collections::BTreeMap;
use std::fmt;

use crate::placement::{Bytes, Offset, Step};

use super::{Flags, Graph, GraphPlan, Operation, TensorId};

/// What goes wrong when a graph runs on a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// A tensor reaches beyond the end of its chunk.
    OutOfChunk(TensorId),
    /// A tensor that is needed has no memory.
    NoMemory(TensorId),
    /// Two values that must both be there before the first step share bytes.
    SharedStart {
        /// The one.
        first: TensorId,
        /// The other.
        second: TensorId,
    },
    /// A node reads a value that somebody has overwritten.
    Overwritten {
        /// The step that reads.
        step: Step,
        /// Whose value is wanted.
        wanted: TensorId,
        /// Whose value, if any, is there.
        found: Option<TensorId>,
    },
    /// A node overwrites a source while it still reads it.
    OverwritesSource {
        /// The step.
        step: Step,
        /// The source.
        source: TensorId,
    },
    /// A result is gone when the graph has run.
    LostResult {
        /// Whose value is wanted.
        wanted: TensorId,
        /// Whose value, if any, is there.
        found: Option<TensorId>,
    },
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfChunk(tensor) => write!(f, "tensor {tensor} reaches beyond its chunk"),
            Self::NoMemory(tensor) => write!(f, "tensor {tensor} is needed and has no memory"),
            Self::SharedStart { first, second } => {
                write!(f, "tensors {first} and {second} share bytes before the first step")
            }
            Self::Overwritten { step, wanted, found } => {
                write!(f, "step {step} reads tensor {wanted}, but there is {found:?}")
            }
            Self::OverwritesSource { step, source } => write!(f, "step {step} overwrites its source {source}"),
            Self::LostResult { wanted, found } => write!(f, "at the end {wanted} is wanted, but there is {found:?}"),
        }
    }
}

/// Runs `graph` on `plan`. `nbytes` tells, by tensor, the bytes from its first to its last element.
///
/// # Errors
/// The first [`Corruption`] met.
pub fn simulate(graph: &Graph, plan: &GraphPlan, nbytes: &[Bytes]) -> Result<(), Corruption> {
    let written = vec![false; graph.tensors().len()];
    let mut run = Run { graph, plan, nbytes, memory: Memory::default(), written, known: known_tensors(graph) };
    let computed = computing_steps(graph);
    run.write_starting_values()?;
    for (step, &node) in (0..).zip(graph.nodes()) {
        for &source in graph.sources(node) {
            let root = graph.root(source) as usize;
            // A marker may name what is not there yet, and does not make it be there.
            let comes_later =
                computed[root].is_some_and(|at| at > step) || (computed[root].is_none() && !run.written[root]);
            if !(graph.tensor(node).is_marker() && comes_later) && source != node {
                run.read(source, step)?;
            }
        }
        if !graph.tensor(node).is_marker() {
            run.compute(node, step)?;
        }
    }
    run.check_results()
}

/// By tensor, the step that computes it.
fn computing_steps(graph: &Graph) -> Vec<Option<Step>> {
    let mut steps = vec![None; graph.tensors().len()];
    for (step, &node) in (0..).zip(graph.nodes()) {
        steps[node as usize].get_or_insert(step);
    }
    steps
}

/// By tensor: is it in a list of the graph, or read by a node? To others nobody gives memory, here as in ggml.
fn known_tensors(graph: &Graph) -> Vec<bool> {
    let mut known = vec![false; graph.tensors().len()];
    let sources = graph.nodes().iter().flat_map(|&node| graph.sources(node));
    for &id in graph.leafs().iter().chain(graph.nodes()).chain(sources) {
        known[id as usize] = true;
    }
    known
}

struct Run<'a> {
    graph: &'a Graph,
    plan: &'a GraphPlan,
    nbytes: &'a [Bytes],
    memory: Memory,
    /// By root: does it have a value?
    written: Vec<bool>,
    known: Vec<bool>,
}

impl Run<'_> {
    fn write_starting_values(&mut self) -> Result<(), Corruption> {
        let graph = self.graph;
        let inputs = (0..).zip(graph.tensors()).filter(|(_, t)| t.flags.has(Flags::INPUT)).map(|(id, _)| id);
        for id in graph.leafs().iter().copied().chain(inputs) {
            if graph.tensor(id).is_owned() && !self.written[id as usize] && self.region(id).is_some() {
                let region = self.checked_region(id)?;
                if let Some(first) = self.memory.anyone_in(region) {
                    return Err(Corruption::SharedStart { first, second: id });
                }
                self.write(id, region);
            }
        }
        Ok(())
    }

    fn read(&mut self, id: TensorId, step: Step) -> Result<(), Corruption> {
        match self.value(id)? {
            None => Ok(()),
            Some(found) => Err(Corruption::Overwritten { step, wanted: self.graph.root(id), found }),
        }
    }

    fn compute(&mut self, node: TensorId, step: Step) -> Result<(), Corruption> {
        let tensor = self.graph.tensor(node);
        if tensor.view.is_some() {
            return self.read(node, step);
        }
        if tensor.external {
            return Ok(());
        }
        let region = self.checked_region(node)?;
        for (slot, &source) in self.graph.sources(node).iter().enumerate() {
            let is_self = source == node || !self.overlaps(source, region);
            if !is_self && !self.may_overwrite(node, slot, region) {
                return Err(Corruption::OverwritesSource { step, source });
            }
        }
        self.write(node, region);
        Ok(())
    }

    fn overlaps(&self, source: TensorId, region: Region) -> bool {
        self.span(source).is_some_and(|span| span.meets(region))
    }

    /// May the result lie where `source` is? Only when no other source lies there.
    fn may_overwrite(&self, node: TensorId, slot: usize, region: Region) -> bool {
        let (graph, sources) = (self.graph, self.graph.sources(node));
        let tensor = graph.tensor(node);
        let Some(span) = self.span(sources[slot]) else { return true };
        let is_alone = (0..sources.len())
            .filter(|&other| other != slot && sources[other] != node)
            .all(|other| !self.span(sources[other]).is_some_and(|it| it.meets(span)));
        let is_in_place = tensor.operation.may_write_over(slot)
            && graph.layout(node) == graph.layout(sources[slot])
            && span.start == region.start
            && sources.iter().filter(|&&other| other != node && self.overlaps(other, region)).count() == 1;
        let is_inside = tensor.operation == Operation::Concat
            && self.place_in_concat(node, slot).is_some_and(|within| span.start == region.start + within);
        is_alone && (is_in_place || is_inside)
    }

    /// How far from the start of the result of a CONCAT a source is written, when its bytes stay together.
    fn place_in_concat(&self, node: TensorId, slot: usize) -> Option<Bytes> {
        let result = self.graph.layout(node);
        let part = self.graph.layout(*self.graph.sources(node).get(slot)?);
        let joined = (0..4).rev().find(|&dimension| result.ne[dimension] != 1)?;
        let same = |dimension: usize| dimension == joined || part.ne[dimension] == result.ne[dimension];
        let before: i64 = self.graph.sources(node)[..slot].iter().map(|&id| self.graph.layout(id).ne[joined]).sum();
        let is_dense = part.element == result.element && part.nb[..=joined] == result.nb[..=joined];
        (is_dense && (0..4).all(same)).then(|| result.nb[joined] * Bytes::try_from(before).unwrap_or(0))
    }

    /// What must last: outputs, and whatever is in the graph, is no input, and is read by no node, not even through a
    /// view; of memory that is written before its owner is listed, the owner.
    fn check_results(&mut self) -> Result<(), Corruption> {
        let graph = self.graph;
        let mut result = vec![false; graph.tensors().len()];
        let is_result = |&&leaf: &&TensorId| {
            let tensor = graph.tensor(leaf);
            tensor.view.is_none() && !tensor.flags.has(Flags::INPUT)
        };
        let computed = computing_steps(graph);
        // What is written into memory before its owner is listed belongs to the making of that one.
        let is_node_a_result = |&&node: &&TensorId| {
            !graph.tensor(node).is_marker() && computed[graph.root(node) as usize] <= computed[node as usize]
        };
        let values = graph.leafs().iter().filter(is_result);
        for &id in values.chain(graph.nodes().iter().filter(is_node_a_result)) {
            result[id as usize] = true;
        }
        for &source in graph.nodes().iter().flat_map(|&node| graph.sources(node)) {
            result[source as usize] = false;
            result[graph.root(source) as usize] = false;
        }
        for (id, tensor) in (0..).zip(graph.tensors()) {
            if (result[id as usize] || tensor.flags.has(Flags::OUTPUT))
                && self.written[graph.root(id) as usize]
                && let Some(found) = self.value(id)?
            {
                return Err(Corruption::LostResult { wanted: graph.root(id), found });
            }
        }
        Ok(())
    }

    /// `None` when all bytes of `id` are as its root left them, else whose value was found.
    fn value(&mut self, id: TensorId) -> Result<Option<Option<TensorId>>, Corruption> {
        let root = self.graph.root(id);
        let unknown = !self.known[root as usize] && self.plan.homes[root as usize].is_none();
        if unknown || !self.graph.tensor(root).is_owned() {
            return Ok(None);
        }
        if !self.written[root as usize] {
            // Referred to without being computed here: whoever set it did so before it is first used.
            let region = self.checked_region(root)?;
            self.write(root, region);
        }
        let span = self.span(id).ok_or(Corruption::NoMemory(root))?;
        Ok(self.memory.stranger_in(span, root))
    }

    fn write(&mut self, id: TensorId, region: Region) {
        self.written[id as usize] = true;
        self.memory.write(region, id);
    }

    /// The bytes that belong to an owned tensor.
    fn region(&self, id: TensorId) -> Option<Region> {
        let home = self.plan.homes[id as usize]?;
        let address = self.plan.address(home);
        let chunk = (address.pool, address.chunk);
        Some(Region { chunk, start: address.offset, end: address.offset.saturating_add(home.alloc_size) })
    }

    fn checked_region(&self, id: TensorId) -> Result<Region, Corruption> {
        let region = self.region(id).ok_or(Corruption::NoMemory(id))?;
        let (pool, chunk) = region.chunk;
        let size = self.plan.pools[pool as usize].placement.chunks.get(chunk as usize).copied();
        if size.is_some_and(|size| region.end <= size) { Ok(region) } else { Err(Corruption::OutOfChunk(id)) }
    }

    /// The bytes that a tensor, view or not, reads and writes.
    fn span(&self, id: TensorId) -> Option<Region> {
        let tensor = self.graph.tensor(id);
        let region = self.region(self.graph.root(id))?;
        let offset = tensor.view.map_or(0, |view| view.offset);
        let start = region.start.saturating_add(offset).min(region.end);
        Some(Region { start, end: start.saturating_add(self.nbytes[id as usize]).min(region.end), ..region })
    }
}

#[derive(Clone, Copy)]
struct Region {
    chunk: (u32, u32),
    start: Offset,
    end: Offset,
}

impl Region {
    fn meets(self, other: Self) -> bool {
        self.chunk == other.chunk && self.start.max(other.start) < self.end.min(other.end)
    }
}

/// Whose value the bytes of each chunk hold: by start, the end and the owner; what is in no range holds nothing.
#[derive(Default)]
struct Memory(BTreeMap<Start, End>);

/// The pool, the chunk and the first byte of a range.
type Start = ((u32, u32), Offset);

/// Where a range ends, and whose value it holds.
type End = (Offset, TensorId);

impl Memory {
    fn write(&mut self, region: Region, owner: TensorId) {
        for (key, (end, old)) in self.overlapping(region) {
            self.0.remove(&key);
            if key.1 < region.start {
                self.0.insert(key, (region.start, old));
            }
            if end > region.end {
                self.0.insert((region.chunk, region.end), (end, old));
            }
        }
        if region.start < region.end {
            self.0.insert((region.chunk, region.start), (region.end, owner));
        }
    }

    fn anyone_in(&self, region: Region) -> Option<TensorId> {
        self.overlapping(region).first().map(|&(_, (_, owner))| owner)
    }

    /// The first value in `region` that is not `owner`'s: another tensor's, or none.
    fn stranger_in(&self, region: Region, owner: TensorId) -> Option<Option<TensorId>> {
        let mut at: Bytes = region.start;
        for ((_, start), (end, found)) in self.overlapping(region) {
            if found != owner {
                return Some(Some(found));
            }
            if start > at {
                return Some(None);
            }
            at = end;
        }
        (at < region.end).then_some(None)
    }

    fn overlapping(&self, region: Region) -> Vec<(Start, End)> {
        let first = self.0.range(..=(region.chunk, region.start)).next_back().map(|(key, _)| *key);
        let from = first.unwrap_or((region.chunk, region.start));
        let all = self.0.range(from..(region.chunk, region.end));
        all.map(|(key, value)| (*key, *value))
            .filter(|((chunk, start), (end, _))| Region { chunk: *chunk, start: *start, end: *end }.meets(region))
            .collect()
    }
}
