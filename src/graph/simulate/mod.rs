//! Is the plan of a graph right? Runs the graph in thought and keeps track of whose value every byte holds.
//!
//! Trusts no live ranges: it looks only at the order of the nodes, at who reads whom, and at the addresses.

mod corruption;
mod freed;
mod memory;
mod places;
mod words;

use std::collections::HashSet;

use crate::placement::{Bytes, Step};

use super::{Flags, Graph, GraphPlan, Operation, TensorId};
use memory::{Memory, Stranger};

pub use corruption::{Corruption, Finding};
pub use freed::{Freed, freed, owner_at};
pub use places::{Places, Region};
pub use words::{Words, describe};

/// Runs `graph` on `plan`. `nbytes` tells, by tensor, the bytes from its first to its last element.
///
/// # Errors
/// The first [`Corruption`] met.
pub fn simulate(graph: &Graph, plan: &GraphPlan, nbytes: &[Bytes]) -> Result<(), Corruption> {
    let findings = simulate_at(graph, &Places::of_plan(plan), nbytes, 1);
    findings.first().map_or(Ok(()), |finding| Err(finding.corruption))
}

/// Runs `graph` with its tensors at `places`. Answers what goes wrong, in the order in which it does; two tensors that harm
/// one another are named once. Stops after `limit` findings.
pub fn simulate_at(graph: &Graph, places: &Places, nbytes: &[Bytes], limit: usize) -> Vec<Finding> {
    let written = vec![false; graph.tensors().len()];
    let (known, computed, skipped) = (known_tensors(graph), computing_steps(graph), skipped_nodes(graph));
    let found = Findings { list: Vec::new(), pairs: HashSet::new(), limit };
    let mut run = Run { graph, places, nbytes, memory: Memory::default(), written, known, found };
    run.write_starting_values();
    for (step, &node) in (0..).zip(graph.nodes()) {
        if run.found.is_full() {
            return run.found.list;
        }
        if skipped[node as usize] {
            continue;
        }
        for &source in graph.sources(node) {
            let root = graph.root(source) as usize;
            // A marker may name what is not there yet, and does not make it be there.
            let comes_later =
                computed[root].is_some_and(|at| at > step) || (computed[root].is_none() && !run.written[root]);
            if !(graph.tensor(node).is_marker() && comes_later) && source != node {
                run.read(source, step);
            }
        }
        if !graph.tensor(node).is_marker() {
            run.compute(node, step);
        }
    }
    run.check_results(&computed, &skipped);
    run.found.list
}

/// By tensor: is it a node that backends skip, since it lacks [`Flags::COMPUTE`] while another node has it? Such nodes
/// neither read nor write. A VIEW without readers counts as run all the same: the scheduler lists one where it copies the
/// root.
fn skipped_nodes(graph: &Graph) -> Vec<bool> {
    let count = graph.tensors().len();
    let (mut is_read, mut skipped) = (vec![false; count], vec![false; count]);
    for &source in graph.nodes().iter().flat_map(|&node| graph.sources(node)) {
        is_read[source as usize] = true;
    }
    let has_flag = |node: TensorId| graph.tensor(node).flags.has(Flags::COMPUTE);
    let knows_flag = graph.has_flag_compute();
    for &node in graph.nodes() {
        let tensor = graph.tensor(node);
        let is_copied = tensor.operation == Operation::View && !is_read[node as usize];
        skipped[node as usize] = knows_flag && !has_flag(node) && !tensor.is_marker() && !is_copied;
    }
    skipped
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

/// What was found so far.
struct Findings {
    list: Vec<Finding>,
    /// The tensors that were named together; the second may be missing.
    pairs: HashSet<(TensorId, Option<TensorId>)>,
    limit: usize,
}

impl Findings {
    fn is_full(&self) -> bool {
        self.list.len() >= self.limit
    }

    fn add(&mut self, corruption: Corruption, bytes: Option<Region>, tensor: TensorId, other: Option<TensorId>) {
        let pair = other.map_or((tensor, None), |other| (tensor.min(other), Some(tensor.max(other))));
        if !self.is_full() && self.pairs.insert(pair) {
            self.list.push(Finding { corruption, bytes });
        }
    }
}

struct Run<'a> {
    graph: &'a Graph,
    places: &'a Places,
    nbytes: &'a [Bytes],
    memory: Memory,
    /// By root: does it have a value?
    written: Vec<bool>,
    known: Vec<bool>,
    found: Findings,
}

impl Run<'_> {
    fn write_starting_values(&mut self) {
        let graph = self.graph;
        let inputs = (0..).zip(graph.tensors()).filter(|(_, t)| t.flags.has(Flags::INPUT)).map(|(id, _)| id);
        for id in graph.leafs().iter().copied().chain(inputs) {
            if graph.tensor(id).is_owned() && !self.written[id as usize] && self.places.region(id).is_some() {
                let Some(region) = self.checked_region(id) else { continue };
                if let Some((first, bytes)) = self.memory.anyone_in(region) {
                    self.found.add(Corruption::SharedStart { first, second: id }, Some(bytes), first, Some(id));
                }
                self.write(id, region);
            }
        }
    }

    fn read(&mut self, id: TensorId, step: Step) {
        let wanted = self.graph.root(id);
        if let Some(Stranger { found, bytes }) = self.stranger(id) {
            self.found.add(Corruption::Overwritten { step, wanted, found }, Some(bytes), wanted, found);
        }
    }

    fn compute(&mut self, node: TensorId, step: Step) {
        let tensor = self.graph.tensor(node);
        if tensor.view.is_some() {
            return self.read(node, step);
        }
        if tensor.external {
            return;
        }
        let Some(region) = self.checked_region(node) else { return };
        for (slot, &source) in self.graph.sources(node).iter().enumerate() {
            let is_self = source == node || !self.overlaps(source, region);
            if !is_self && !self.may_overwrite(node, slot, region) {
                let bytes = self.span(source).map(|span| span.common(region));
                let root = self.graph.root(source);
                self.found.add(Corruption::OverwritesSource { step, source }, bytes, node, Some(root));
            }
        }
        self.write(node, region);
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
            && self
                .place_in_concat(node, slot)
                .is_some_and(|within| span.start.checked_sub(region.start) == Some(within));
        is_alone && (is_in_place || is_inside)
    }

    /// How far from the start of the result of a CONCAT a source is written, when its bytes stay together.
    fn place_in_concat(&self, node: TensorId, slot: usize) -> Option<Bytes> {
        let result = self.graph.layout(node);
        let part = self.graph.layout(*self.graph.sources(node).get(slot)?);
        let joined = (0..4).rev().find(|&dimension| result.ne[dimension] != 1)?;
        let same = |dimension: usize| dimension == joined || part.ne[dimension] == result.ne[dimension];
        let extents = self.graph.sources(node)[..slot].iter().map(|&id| self.graph.layout(id).ne[joined]);
        let before = Bytes::try_from(extents.fold(0, i64::saturating_add)).ok()?;
        let is_dense = part.element == result.element && part.nb[..=joined] == result.nb[..=joined];
        if is_dense && (0..4).all(same) { result.nb[joined].checked_mul(before) } else { None }
    }

    fn check_results(&mut self, computed: &[Option<Step>], skipped: &[bool]) {
        let graph = self.graph;
        let is_result = lasting(graph, computed, skipped);
        for (id, _) in (0..).zip(graph.tensors()) {
            let wanted = graph.root(id);
            if is_result[id as usize]
                && self.written[wanted as usize]
                && let Some(Stranger { found, bytes }) = self.stranger(id)
            {
                self.found.add(Corruption::LostResult { wanted, found }, Some(bytes), wanted, found);
            }
        }
    }

    /// The first bytes of `id` that are not as its root left them.
    fn stranger(&mut self, id: TensorId) -> Option<Stranger> {
        let root = self.graph.root(id);
        let unknown = !self.known[root as usize] && self.places.region(root).is_none();
        if unknown || !self.graph.tensor(root).is_owned() {
            return None;
        }
        let region = self.checked_region(root)?;
        if !self.written[root as usize] {
            // Referred to without being computed here: whoever set it did so before it is first used.
            self.write(root, region);
        }
        self.memory.stranger_in(self.span(id)?, root)
    }

    fn write(&mut self, id: TensorId, region: Region) {
        self.written[id as usize] = true;
        self.memory.write(region, id);
    }

    /// The bytes that belong to an owned tensor, when it has some and they are there.
    fn checked_region(&mut self, id: TensorId) -> Option<Region> {
        let Some(region) = self.places.region(id) else {
            self.found.add(Corruption::NoMemory(id), None, id, None);
            return None;
        };
        if !self.places.contain(region) {
            let size = self.places.spaces.get(region.space as usize).copied().unwrap_or(0);
            let beyond = Region { start: region.start.max(size), ..region };
            self.found.add(Corruption::OutOfChunk(id), Some(beyond), id, None);
            return None;
        }
        Some(region)
    }

    /// The bytes that a tensor, view or not, reads and writes.
    fn span(&self, id: TensorId) -> Option<Region> {
        let tensor = self.graph.tensor(id);
        let region = self.places.region(self.graph.root(id))?;
        let offset = tensor.view.map_or(0, |view| view.offset);
        let start = region.start.saturating_add(offset).min(region.end);
        Some(Region { start, end: start.saturating_add(self.nbytes[id as usize]).min(region.end), ..region })
    }
}

/// By tensor: must it last? Outputs, and whatever is in the graph, is no input, and is read by no node, not even through a
/// view; of memory that is written before its owner is listed, the owner.
fn lasting(graph: &Graph, computed: &[Option<Step>], skipped: &[bool]) -> Vec<bool> {
    let mut result = vec![false; graph.tensors().len()];
    let is_result = |&&leaf: &&TensorId| {
        let tensor = graph.tensor(leaf);
        tensor.view.is_none() && !tensor.flags.has(Flags::INPUT)
    };
    // What is written into memory before its owner is listed belongs to the making of that one.
    let is_node_a_result = |&&node: &&TensorId| {
        let is_run = !graph.tensor(node).is_marker() && !skipped[node as usize];
        is_run && computed[graph.root(node) as usize] <= computed[node as usize]
    };
    let values = graph.leafs().iter().filter(is_result);
    for &id in values.chain(graph.nodes().iter().filter(is_node_a_result)) {
        result[id as usize] = true;
    }
    for &source in graph.nodes().iter().flat_map(|&node| graph.sources(node)) {
        result[source as usize] = false;
        result[graph.root(source) as usize] = false;
    }
    for (result, tensor) in result.iter_mut().zip(graph.tensors()) {
        *result |= tensor.flags.has(Flags::OUTPUT);
    }
    result
}
