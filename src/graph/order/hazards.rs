//! Which nodes must stay before which.

use crate::graph::{Effect, Graph, TensorId};
use crate::placement::Step;

/// For each node, the nodes that must run before it and those that must run after it, by their steps in the given
/// order. The given order is always allowed.
#[derive(Clone, Debug)]
pub struct Hazards {
    before: Vec<Vec<Step>>,
    after: Vec<Vec<Step>>,
}

impl Hazards {
    /// Finds the pairs of nodes that must not be swapped:
    ///
    /// - a node and its sources, or the root of its view;
    /// - two nodes that access the same memory, unless both only read it. Views access the memory of their roots, and
    ///   tensors with the same number in `same_memory` access the same;
    /// - any node and one that may do anything, or a dependency marker: markers fix where in the order something must
    ///   have memory, or must still have it, or is filled from outside. No-op nodes without sources are no markers when
    ///   they have memory already, as parameters do, or when a node before them uses them: then others write them;
    /// - a retained tensor and the node that ends its retention;
    /// - the last node and any other: programs find a graph's result at its end.
    ///
    /// `effects` and `same_memory` are by tensor; in the latter, a root whose memory aliases no other has its own id.
    pub fn new(graph: &Graph, effects: &[Effect], same_memory: &[TensorId]) -> Self {
        let count = graph.nodes().len();
        let tensors = graph.tensors().len();
        let mut finder = Finder { before: vec![Vec::new(); count], uses: vec![HazardUses::default(); 2 * tensors] };
        let mut barrier = None;
        let mut is_used = vec![false; tensors];
        for (step, &node) in (0..).zip(graph.nodes()) {
            if let Some(barrier) = barrier {
                finder.order(barrier, step);
            }
            if is_barrier(graph, effects, node, is_used[node as usize]) {
                let first = barrier.map_or(0, |barrier| barrier + 1);
                (first..step).for_each(|earlier| finder.order(earlier, step));
                barrier = Some(step);
            }
            finder.run(graph, effects[node as usize], same_memory, node, step);
            graph.sources(node).iter().for_each(|&source| is_used[source as usize] = true);
        }
        finder.order_retained(graph);
        finder.finish()
    }

    /// Adds pairs of steps: the first of a pair must run before the second, as it does in the given order.
    pub fn with_pairs(mut self, pairs: impl IntoIterator<Item = (Step, Step)>) -> Self {
        for (earlier, later) in pairs {
            let before = &mut self.before[later as usize];
            if let Err(position) = before.binary_search(&earlier) {
                before.insert(position, earlier);
                self.after[earlier as usize].push(later);
            }
        }
        self
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
        let in_order = |(step, before): (usize, &Vec<Step>)| {
            position[step].is_some() && before.iter().all(|&earlier| position[earlier as usize] < position[step])
        };
        self.before.iter().enumerate().all(in_order)
    }

    /// Returns steps that must run before `step`; the others follow from these.
    pub fn before(&self, step: Step) -> &[Step] {
        &self.before[step as usize]
    }

    /// Returns steps that must run after `step`; the others follow from these.
    pub fn after(&self, step: Step) -> &[Step] {
        &self.after[step as usize]
    }
}

fn is_barrier(graph: &Graph, effects: &[Effect], node: TensorId, is_used: bool) -> bool {
    let tensor = graph.tensor(node);
    let is_defined_elsewhere = (tensor.external || is_used) && graph.sources(node).is_empty();
    let marks = tensor.is_marker() && !is_defined_elsewhere;
    marks || effects[node as usize] == Effect::Anything
}

/// Returns the last step that no node may be moved across.
pub fn last_barrier(graph: &Graph, effects: &[Effect]) -> Option<Step> {
    let mut is_used = vec![false; graph.tensors().len()];
    let mut last = None;
    for (step, &node) in (0..).zip(graph.nodes()) {
        if is_barrier(graph, effects, node, is_used[node as usize]) {
            last = Some(step);
        }
        graph.sources(node).iter().for_each(|&source| is_used[source as usize] = true);
    }
    last
}

/// The last step that wrote a resource, and the steps that have read it since.
#[derive(Clone, Default)]
struct HazardUses {
    written: Option<Step>,
    read: Vec<Step>,
}

struct Finder {
    before: Vec<Vec<Step>>,
    /// Two resources per tensor: its value, and the memory that it is the root of.
    uses: Vec<HazardUses>,
}

impl Finder {
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
    }

    fn order_retained(&mut self, graph: &Graph) {
        let retained = graph.retained();
        if retained.iter().all(|(_, until)| until.is_none()) {
            return;
        }
        let defs = graph.first_defs();
        for (tensor, until) in retained {
            if let (Some(def), Some(until)) = (defs[tensor as usize], until) {
                self.order(def.min(until), def.max(until));
            }
        }
    }

    fn read(&mut self, resource: usize, step: Step) {
        if let Some(writer) = self.uses[resource].written {
            self.order(writer, step);
        }
        if self.uses[resource].read.last() != Some(&step) {
            self.uses[resource].read.push(step);
        }
    }

    fn write(&mut self, resource: usize, step: Step) {
        if let Some(writer) = self.uses[resource].written.replace(step) {
            self.order(writer, step);
        }
        for reader in std::mem::take(&mut self.uses[resource].read) {
            self.order(reader, step);
        }
    }

    fn order(&mut self, earlier: Step, later: Step) {
        if earlier < later {
            self.before[later as usize].push(earlier);
        }
    }

    fn finish(mut self) -> Hazards {
        self.before.iter_mut().for_each(|before| {
            before.sort_unstable();
            before.dedup();
        });
        self.keep_the_last();
        let mut after = vec![Vec::new(); self.before.len()];
        for (step, before) in (0..).zip(&self.before) {
            before.iter().for_each(|&earlier| after[earlier as usize].push(step));
        }
        Hazards { before: self.before, after }
    }

    /// Keeps the last node last: nodes that no other must follow stay before it.
    fn keep_the_last(&mut self) {
        let mut has_successor = vec![false; self.before.len()];
        self.before.iter().flatten().for_each(|&earlier| has_successor[earlier as usize] = true);
        if let Some(last) = self.before.last_mut() {
            has_successor.pop();
            last.extend((0..).zip(has_successor).filter(|(_, has_successor)| !has_successor).map(|(step, _)| step));
            last.sort_unstable();
        }
    }
}
