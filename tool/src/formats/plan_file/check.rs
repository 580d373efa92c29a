//! Checks a plan from a file against a captured graph. Shares no code with the planner.

use std::collections::{HashMap, HashSet};
use std::fmt;

use lastuse::graph::snapshot::{BufferInfo, Snapshot, TensorInfo};
use lastuse::graph::{AddressMap, Graph, Labels, Region, TensorId, describe, simulate_at};
use lastuse::placement::{Bytes, MAX_CHUNKS, Step};

use super::{Entries, PlanFile, PlannedBuffer, PlannedTensor};

/// The most corruptions that are reported.
const MOST_FINDINGS: usize = 1000;

/// A defect of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanDefect {
    /// Its kind.
    pub kind: PlanDefectKind,
    /// The ids, in the file of the graph, of the tensors involved.
    pub tensors: Vec<u64>,
    /// A description for people.
    pub message: String,
}

/// Kinds of defects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanDefectKind {
    /// A buffer does not match the graph, or contradicts itself.
    Buffer,
    /// The order of the nodes cannot be run.
    Order,
    /// An entry is for no tensor that needs memory, or is a duplicate.
    Entry,
    /// A tensor has fewer bytes than it needs.
    Size,
    /// A tensor is at an offset that its buffer does not allow.
    Alignment,
    /// A tensor is outside its buffer, or in a wrong one.
    Outside,
    /// A value is overwritten or lost when the graph runs.
    Corruption,
}

impl fmt::Display for PlanDefectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Buffer => "buffer",
            Self::Order => "order",
            Self::Entry => "entry",
            Self::Size => "size",
            Self::Alignment => "alignment",
            Self::Outside => "outside",
            Self::Corruption => "corruption",
        })
    }
}

/// Returns all defects of `plan`, none if it is correct; at most a thousand corruptions.
pub fn check(snapshot: &Snapshot, plan: &PlanFile) -> Vec<PlanDefect> {
    let listed = snapshot.graph.leafs().iter().chain(snapshot.graph.nodes()).copied().collect();
    let mut checker = Checker { snapshot, plan, listed, entries: Entries::new(snapshot, plan), defects: Vec::new() };
    checker.check_buffers();
    let graph = checker.ordered_graph();
    checker.check_entries();
    checker.check_addresses();
    if let Some(graph) = graph {
        checker.simulate(&graph);
    }
    checker.defects
}

struct Checker<'a> {
    snapshot: &'a Snapshot,
    plan: &'a PlanFile,
    /// The leafs and the nodes.
    listed: HashSet<TensorId>,
    entries: Entries<'a>,
    defects: Vec<PlanDefect>,
}

impl Checker<'_> {
    fn add(&mut self, kind: PlanDefectKind, tensors: &[TensorId], message: String) {
        let tensors = tensors.iter().map(|&id| self.snapshot.tensors[id as usize].id).collect();
        self.defects.push(PlanDefect { kind, tensors, message });
    }

    fn check_buffers(&mut self) {
        let (snapshot, plan) = (self.snapshot, self.plan);
        let (expected, found) = (snapshot.buffers.len(), plan.buffers.len());
        if expected != found {
            let message =
                format!("the graph has {expected} buffers, and the plan has {found}: is it of another graph?");
            self.add(PlanDefectKind::Buffer, &[], message);
        }
        for (index, (buffer, planned)) in snapshot.buffers.iter().zip(&plan.buffers).enumerate() {
            for message in defects_of_buffer(buffer, planned) {
                self.add(PlanDefectKind::Buffer, &[], format!("buffer {index}: {message}"));
            }
            for message in self.defects_of_chunks(index, buffer, planned) {
                self.add(PlanDefectKind::Buffer, &[], format!("buffer {index}: {message}"));
            }
        }
    }

    /// Returns the defect of a buffer's chunks, if any. A chunk may exceed the limit for a single tensor that does, and
    /// so may the last of the most chunks allowed.
    fn defects_of_chunks(&self, index: usize, buffer: &BufferInfo, planned: &PlannedBuffer) -> Vec<String> {
        let mut found = Vec::new();
        let count = planned.chunks.len();
        if count > MAX_CHUNKS {
            found.push(format!("it has {count} chunks, and there can be {MAX_CHUNKS}"));
        }
        let Some(most) = buffer.max_size else { return found };
        let largest = |chunk: usize| {
            let lies_there = |entry: &&PlannedTensor| entry.buffer as usize == index && entry.chunk as usize == chunk;
            self.entries
                .by_tensor
                .iter()
                .flatten()
                .copied()
                .filter(lies_there)
                .map(|entry| entry.size)
                .max()
                .unwrap_or(0)
        };
        for (chunk, &size) in planned.chunks.iter().enumerate() {
            if size > most && chunk + 1 < MAX_CHUNKS && size > largest(chunk) {
                found.push(format!("chunk {chunk} has {size} bytes, and the largest buffer has {most}"));
            }
        }
        found
    }

    /// Returns the graph in the order of the plan, if that order can be run.
    fn ordered_graph(&mut self) -> Option<Graph> {
        let graph = &self.snapshot.graph;
        let Some(order) = &self.plan.order else { return Some(graph.clone()) };
        match steps_of(self.snapshot, order).and_then(|steps| in_order(graph, &steps)) {
            Ok(graph) => Some(graph),
            Err(message) => {
                self.add(PlanDefectKind::Order, &[], message);
                None
            }
        }
    }

    fn check_entries(&mut self) {
        for id in self.entries.unknown.clone() {
            let message = format!("the plan allocates tensor {id}, which is not in the graph");
            self.defects.push(PlanDefect { kind: PlanDefectKind::Entry, tensors: vec![id], message });
        }
        for id in self.entries.twice.clone() {
            let message = format!("the plan allocates {} twice", self.snapshot.tensor(id));
            self.add(PlanDefectKind::Entry, &[id], message);
        }
        for (id, tensor) in (0..).zip(self.snapshot.graph.tensors()) {
            if self.entries.by_tensor[id as usize].is_some() && !tensor.is_owned() {
                let why = if tensor.external { "has its own already" } else { "is a view" };
                let message = format!("the plan allocates {}, which {why}", self.snapshot.tensor(id));
                self.add(PlanDefectKind::Entry, &[id], message);
            }
        }
    }

    fn check_addresses(&mut self) {
        for (id, entry) in (0..).zip(self.entries.by_tensor.clone()) {
            let Some(entry) = entry.filter(|_| self.snapshot.graph.tensor(id).is_owned()) else { continue };
            let name = self.snapshot.tensor(id);
            for (kind, message) in self.defects_of_address(id, entry) {
                self.add(kind, &[id], format!("{name} {message}"));
            }
        }
    }

    fn defects_of_address(&self, id: TensorId, entry: &PlannedTensor) -> Vec<(PlanDefectKind, String)> {
        let (info, mut found) = (&self.snapshot.tensors[id as usize], Vec::new());
        let PlannedTensor { buffer, chunk, offset, size, .. } = *entry;
        let Some((requested, planned)) = self.buffer(buffer) else {
            return vec![(PlanDefectKind::Outside, format!("lies in buffer {buffer}, which is not there"))];
        };
        if self.listed.contains(&id) && info.buffer != buffer && !self.is_in_place(id, entry) {
            found.push((
                PlanDefectKind::Outside,
                format!("lies in buffer {buffer}, and the graph requests it in {}", info.buffer),
            ));
        }
        // Reading the graph has checked that sizes can be padded.
        let needed = info.size.next_multiple_of(requested.alignment);
        if size < needed {
            found.push((PlanDefectKind::Size, format!("has {size} bytes, and needs {needed}")));
        }
        if offset % requested.alignment != 0 {
            let alignment = requested.alignment;
            found.push((
                PlanDefectKind::Alignment,
                format!("lies at offset {offset}, which is not a multiple of {alignment}"),
            ));
        }
        match planned.chunks.get(chunk as usize) {
            None => found.push((
                PlanDefectKind::Outside,
                format!("lies in chunk {chunk} of buffer {buffer}, which is not there"),
            )),
            Some(&chunk_size) => {
                let end = offset.checked_add(size.max(info.size));
                if end.is_none_or(|end| end > chunk_size) {
                    let end = end.map_or("2^64 or beyond".to_owned(), |end| end.to_string());
                    let place = format!("chunk {chunk} of buffer {buffer}, which has {chunk_size} bytes");
                    found.push((PlanDefectKind::Outside, format!("lies at {offset} to {end} of {place}")));
                }
            }
        }
        found
    }

    /// Returns `true` if a node is in the memory of a source. It is then in the source's buffer, whatever was
    /// requested.
    fn is_in_place(&self, id: TensorId, entry: &PlannedTensor) -> bool {
        let graph = &self.snapshot.graph;
        let mut sources = graph.sources(id).iter().map(|&source| graph.root(source)).filter(|&root| root != id);
        sources.any(|root| {
            self.entries.by_tensor[root as usize].is_some_and(|source| {
                (source.buffer, source.chunk) == (entry.buffer, entry.chunk)
                    && source.offset <= entry.offset
                    && entry.offset - source.offset < source.size.max(1)
            })
        })
    }

    fn buffer(&self, buffer: u32) -> Option<(&BufferInfo, &PlannedBuffer)> {
        Some((self.snapshot.buffers.get(buffer as usize)?, self.plan.buffers.get(buffer as usize)?))
    }

    /// Simulates the graph. Tensors outside their chunks were reported already, so the chunks are unlimited here.
    fn simulate(&mut self, graph: &Graph) {
        let mut chunks: HashMap<(u32, u32), u32> = HashMap::new();
        let mut spaces = FileLabels { snapshot: self.snapshot, chunks: Vec::new() };
        let snapshot = self.snapshot;
        let region = |(entry, info): (&Option<&PlannedTensor>, &TensorInfo)| {
            let entry = (*entry)?;
            let chunk = (entry.buffer, entry.chunk);
            let space = *chunks.entry(chunk).or_insert_with(|| {
                spaces.chunks.push(chunk);
                u32::try_from(spaces.chunks.len() - 1).expect("fewer than 2^32 chunks")
            });
            Some(Region { space, start: entry.offset, end: entry.offset.saturating_add(info.size) })
        };
        let regions = self.entries.by_tensor.iter().zip(&snapshot.tensors).map(region).collect();
        let addresses = AddressMap { spaces: vec![Bytes::MAX; spaces.chunks.len()], regions };
        let nbytes: Vec<Bytes> = snapshot.tensors.iter().map(|tensor| tensor.nbytes).collect();
        for finding in simulate_at(graph, &addresses, &nbytes, MOST_FINDINGS) {
            let message = describe(graph, &finding, &spaces);
            let tensors: Vec<TensorId> = finding.corruption.tensors(graph).collect();
            self.add(PlanDefectKind::Corruption, &tensors, message);
        }
    }
}

/// Labels of a plan from a file.
struct FileLabels<'a> {
    snapshot: &'a Snapshot,
    /// By address space: the buffer and the chunk.
    chunks: Vec<(u32, u32)>,
}

impl Labels for FileLabels<'_> {
    fn tensor(&self, tensor: TensorId) -> String {
        self.snapshot.tensor(tensor)
    }

    fn space(&self, space: u32) -> String {
        let (buffer, chunk) = self.chunks[space as usize];
        let name = self.snapshot.buffers.get(buffer as usize).map_or("", |buffer| &buffer.name);
        format!("chunk {chunk} of buffer {buffer} ({name})")
    }
}

fn defects_of_buffer(buffer: &BufferInfo, planned: &PlannedBuffer) -> Vec<String> {
    let mut found = Vec::new();
    let PlannedBuffer { name, size, chunks, lower_bound } = planned;
    if name != &buffer.name {
        found.push(format!("the graph calls it {:?}, and the plan {name:?}", buffer.name));
    }
    match chunks.iter().try_fold(0, |sum: Bytes, &chunk| sum.checked_add(chunk)) {
        Some(sum) if sum == *size => {}
        Some(sum) => found.push(format!("its size is {size}, and its chunks have {sum} bytes")),
        None => found.push("its chunks add up to more than can be addressed".to_owned()),
    }
    if lower_bound > size {
        found.push(format!("its lower bound is {lower_bound}, which is above its size {size}"));
    }
    found
}

/// Returns the steps of an order of ids; the reason if it does not have each node once.
fn steps_of(snapshot: &Snapshot, order: &[u64]) -> Result<Vec<Step>, String> {
    let nodes = snapshot.graph.nodes();
    let ids = (0..).zip(nodes).map(|(step, &node)| (snapshot.tensors[node as usize].id, step));
    let mut steps: HashMap<u64, Step> = ids.collect();
    let mut taken = Vec::with_capacity(order.len());
    for id in order {
        let step = steps.remove(id);
        taken.push(
            step.ok_or_else(|| format!("the order names {id}, which is not a node of the graph or is listed twice"))?,
        );
    }
    match steps.into_keys().min() {
        Some(missing) => Err(format!("the order leaves out node {missing}")),
        None => Ok(taken),
    }
}

fn in_order(graph: &Graph, steps: &[Step]) -> Result<Graph, String> {
    let ordered = graph.in_order(steps);
    let mut at = vec![None; graph.tensors().len()];
    for (step, &node) in ordered.nodes().iter().enumerate() {
        at[node as usize] = Some(step);
    }
    for &node in ordered.nodes().iter().filter(|&&node| !graph.tensor(node).is_marker()) {
        let too_late =
            graph.sources(node).iter().find(|&&source| source != node && at[source as usize] > at[node as usize]);
        if too_late.is_some() {
            return Err("the order runs a node before one that it reads".to_owned());
        }
    }
    Ok(ordered)
}
