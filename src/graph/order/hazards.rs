//! Which nodes must stay before which.

use crate::graph::lists::Lists;
use crate::graph::{Effect, Graph, TensorId};
use crate::placement::Step;

/// For each node, the nodes that must run before it and those that must run after it, by their steps in the given
/// order. The given order is always allowed.
#[derive(Clone, Debug)]
pub struct Hazards {
    before: Lists<Step>,
    after: Lists<Step>,
}

impl Hazards {
    /// Finds the pairs of nodes that must not be swapped:
    ///
    /// - a node and its sources, or the root of its view;
    /// - two nodes that access the same memory, unless both only read it. Views access the memory of their roots, and
    ///   tensors with the same number in `same_memory` access the same;
    /// - any node and one that may do anything, or a control dependency: markers fix where in the order something must
    ///   have memory, or must still have it, or is filled from outside. No-op nodes without sources are not markers
    ///   when they have memory already, as parameters do, or when a node before them uses them: then others write them;
    /// - a retained tensor and the node that ends its retention;
    /// - the last node and any other: programs find a graph's result at its end.
    ///
    /// `same_memory` is by tensor: a root whose memory aliases no other has its own id.
    pub fn new(graph: &Graph, same_memory: &[TensorId]) -> Self {
        let tensors = graph.tensors().len();
        let mut finder = Finder::of(graph);
        let mut barrier = None;
        let mut is_used = vec![false; tensors];
        for (step, &node) in (0..).zip(graph.nodes()) {
            finder.earlier.extend(barrier);
            if is_barrier(graph, node, is_used[node as usize]) {
                let first = barrier.map_or(0, |barrier| barrier + 1);
                finder.earlier.extend(first..step);
                barrier = Some(step);
            }
            finder.run(graph, graph.tensor(node).op.effect(), same_memory, node, step);
            graph.sources(node).iter().for_each(|&source| is_used[source as usize] = true);
        }
        let before = keeping_the_last(with_pairs(finder.before, ends_of_retention(graph)));
        Self { after: reversed(&before), before }
    }

    /// Adds pairs of steps: the first of a pair must run before the second, as it does in the given order.
    pub fn with_pairs(self, pairs: impl IntoIterator<Item = (Step, Step)>) -> Self {
        let before = with_pairs(self.before, pairs.into_iter().collect());
        Self { after: reversed(&before), before }
    }

    /// Returns `true` if `order` has each node once, and keeps every pair that must not be swapped.
    pub fn allow(&self, order: &[Step]) -> bool {
        let mut position = vec![None; self.before.len()];
        for (at, &step) in order.iter().enumerate() {
            if position.get(step as usize) != Some(&None) {
                return false;
            }
            position[step as usize] = Some(at);
        }
        let in_order = |(step, before): (usize, &[Step])| {
            position[step].is_some() && before.iter().all(|&earlier| position[earlier as usize] < position[step])
        };
        self.before.iter().enumerate().all(in_order)
    }

    /// Returns steps that must run before `step`; the others follow from these.
    pub fn before(&self, step: Step) -> &[Step] {
        self.before.of(step)
    }

    /// Returns steps that must run after `step`; the others follow from these.
    pub fn after(&self, step: Step) -> &[Step] {
        self.after.of(step)
    }
}

fn is_barrier(graph: &Graph, node: TensorId, is_used: bool) -> bool {
    let tensor = graph.tensor(node);
    let is_defined_elsewhere = (tensor.external || is_used) && graph.sources(node).is_empty();
    let marks = tensor.is_marker() && !is_defined_elsewhere;
    marks || tensor.op.effect() == Effect::Anything
}

/// Returns the last step that no node may be moved across.
pub fn last_barrier(graph: &Graph) -> Option<Step> {
    let mut is_used = vec![false; graph.tensors().len()];
    let mut last = None;
    for (step, &node) in (0..).zip(graph.nodes()) {
        if is_barrier(graph, node, is_used[node as usize]) {
            last = Some(step);
        }
        graph.sources(node).iter().for_each(|&source| is_used[source as usize] = true);
    }
    last
}

/// The last step that wrote a resource, and the last one of the steps that have read it since.
#[derive(Clone, Default)]
struct HazardUses {
    written: Option<Step>,
    /// A position in [`Finder::reads`].
    read: Option<u32>,
}

/// A step that read a resource.
struct Read {
    step: Step,
    /// The position of the read before it since the resource was written.
    previous: Option<u32>,
}

struct Finder {
    /// By step: the steps that must run before it.
    before: Lists<Step>,
    /// The steps that must run before the current one.
    earlier: Vec<Step>,
    /// Two resources per tensor: its value, and the memory that it is the root of.
    uses: Vec<HazardUses>,
    reads: Vec<Read>,
}

impl Finder {
    fn of(graph: &Graph) -> Self {
        let (nodes, tensors) = (graph.nodes().len(), graph.tensors().len());
        Self {
            before: Lists::with_capacity(nodes),
            earlier: Vec::new(),
            uses: vec![HazardUses::default(); 2 * tensors],
            reads: Vec::with_capacity(4 * nodes),
        }
    }

    /// Runs a node, and adds the list of its step.
    fn run(&mut self, graph: &Graph, effect: Effect, same_memory: &[TensorId], node: TensorId, step: Step) {
        let tensors = graph.tensors().len();
        let memory = |id: TensorId| tensors + same_memory[graph.root(id) as usize] as usize;
        for (position, &source) in graph.sources(node).iter().enumerate() {
            if source != node {
                self.read(source as usize, step);
            }
            if effect.writes_source(position) {
                self.write(memory(source), step);
            } else {
                self.read(memory(source), step);
            }
        }
        self.write(node as usize, step);
        let is_pure_view = effect == Effect::View && graph.tensor(node).view.is_some();
        if is_pure_view || graph.tensor(node).is_marker() {
            self.read(graph.root(node) as usize, step);
            self.read(memory(node), step);
        } else {
            self.write(memory(node), step);
        }
        self.earlier.retain(|&earlier| earlier < step);
        self.earlier.sort_unstable();
        self.earlier.dedup();
        self.before.push(&self.earlier);
        self.earlier.clear();
    }

    fn read(&mut self, resource: usize, step: Step) {
        let uses = &mut self.uses[resource];
        self.earlier.extend(uses.written);
        let previous = uses.read;
        if previous.is_none_or(|read| self.reads[read as usize].step != step) {
            uses.read = Some(u32::try_from(self.reads.len()).expect("fewer than 2^32 reads"));
            self.reads.push(Read { step, previous });
        }
    }

    fn write(&mut self, resource: usize, step: Step) {
        let uses = &mut self.uses[resource];
        self.earlier.extend(uses.written.replace(step));
        let mut next = uses.read.take();
        while let Some(read) = next {
            let Read { step: reader, previous } = self.reads[read as usize];
            self.earlier.push(reader);
            next = previous;
        }
    }
}

/// Returns, of each tensor that is retained until a node runs, the step that computes it and that of the node.
fn ends_of_retention(graph: &Graph) -> Vec<(Step, Step)> {
    let retained = graph.retained();
    if retained.iter().all(|(_, until)| until.is_none()) {
        return Vec::new();
    }
    let defs = graph.first_defs();
    let pair = |(tensor, until): (TensorId, Option<Step>)| {
        let (def, until) = (defs[tensor as usize]?, until?);
        (def != until).then(|| (def.min(until), def.max(until)))
    };
    retained.into_iter().filter_map(pair).collect()
}

/// Adds pairs of an earlier and a later step to the lists of the steps before each step.
fn with_pairs(before: Lists<Step>, mut pairs: Vec<(Step, Step)>) -> Lists<Step> {
    if pairs.is_empty() {
        return before;
    }
    pairs.extend(before.pairs().map(|(later, earlier)| (earlier, later)));
    pairs.sort_unstable();
    pairs.dedup();
    Lists::collect(before.len(), pairs.iter().map(|&(earlier, later)| (later, earlier)))
}

/// Keeps the last node last: nodes that no other must follow stay before it.
fn keeping_the_last(mut before: Lists<Step>) -> Lists<Step> {
    let Some(last) = before.iter().last() else { return before };
    let mut list = last.to_vec();
    let mut has_successor = vec![false; before.len() - 1];
    before.pairs().for_each(|(_, earlier)| has_successor[earlier as usize] = true);
    list.extend((0..).zip(has_successor).filter(|(_, has_successor)| !has_successor).map(|(step, _)| step));
    list.sort_unstable();
    before.pop();
    before.push(&list);
    before
}

/// Returns, by step, the steps that must run after it, from the steps before each step.
fn reversed(before: &Lists<Step>) -> Lists<Step> {
    Lists::collect(before.len(), before.pairs().map(|(later, earlier)| (earlier, later)))
}
