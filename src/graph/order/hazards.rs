//! Who must stay before whom.

use crate::graph::{Graph, TensorId};
use crate::placement::Step;

use super::Effect;

/// For each node the nodes that must run before it, and those that must run after it; nodes are named by their steps in
/// the given order. Whoever is before another is so in the given order too, so the given order is always allowed.
#[derive(Clone, Debug)]
pub struct Hazards {
    before: Vec<Vec<Step>>,
    after: Vec<Vec<Step>>,
}

impl Hazards {
    /// What `graph` does not allow to be swapped:
    ///
    /// - a node and what it reads, or is a view of;
    /// - two nodes that touch the same memory, unless both only read it. Views touch the memory of their roots, and
    ///   tensors with the same number in `same_memory` touch the same;
    /// - anything and a node that may do anything, or that computes nothing: the latter mark where in the order
    ///   something must have memory, or must still have it, or is filled from outside. Tensors without an operation and
    ///   without sources mark nothing when they have their memory already, as parameters do, or when a node before them
    ///   names them: then others write them;
    /// - the last node and any other: programs find a graph's result at its end.
    ///
    /// `effects` and `same_memory` are by tensor; a root that shares its memory with no other has its own id there.
    pub fn new(graph: &Graph, effects: &[Effect], same_memory: &[TensorId]) -> Self {
        let count = graph.nodes().len();
        let tensors = graph.tensors().len();
        let mut finder = Finder { before: vec![Vec::new(); count], uses: vec![Uses::default(); 2 * tensors] };
        let mut barrier = None;
        let mut is_named = vec![false; tensors];
        for (step, &node) in (0..).zip(graph.nodes()) {
            if let Some(barrier) = barrier {
                finder.order(barrier, step);
            }
            if is_barrier(graph, effects, node, is_named[node as usize]) {
                let first = barrier.map_or(0, |barrier| barrier + 1);
                (first..step).for_each(|earlier| finder.order(earlier, step));
                barrier = Some(step);
            }
            finder.run(graph, effects[node as usize], same_memory, node, step);
            graph.sources(node).iter().for_each(|&source| is_named[source as usize] = true);
        }
        finder.finish()
    }

    /// Is `order` one of all the nodes in which nobody overtakes whom it must not?
    pub fn allow(&self, order: &[Step]) -> bool {
        let mut place = vec![None; self.before.len()];
        for (at, &step) in order.iter().enumerate() {
            if place.get(step as usize) != Some(&None) {
                return false;
            }
            place[step as usize] = Some(at);
        }
        let in_order = |(step, before): (usize, &Vec<Step>)| {
            place[step].is_some() && before.iter().all(|&earlier| place[earlier as usize] < place[step])
        };
        self.before.iter().enumerate().all(in_order)
    }

    /// Must run before `step`; others follow from these.
    pub fn before(&self, step: Step) -> &[Step] {
        &self.before[step as usize]
    }

    /// Must run after `step`; others follow from these.
    pub fn after(&self, step: Step) -> &[Step] {
        &self.after[step as usize]
    }
}

fn is_barrier(graph: &Graph, effects: &[Effect], node: TensorId, is_named: bool) -> bool {
    let tensor = graph.tensor(node);
    let is_there = (tensor.external || is_named) && graph.sources(node).is_empty();
    let marks = tensor.is_marker() && !is_there;
    marks || effects[node as usize] == Effect::Anything
}

/// Who last wrote something, and who has read it since.
#[derive(Clone, Default)]
struct Uses {
    written: Option<Step>,
    read: Vec<Step>,
}

struct Finder {
    before: Vec<Vec<Step>>,
    /// Two things a tensor: that it has been computed, and the memory of which it is the root.
    uses: Vec<Uses>,
}

impl Finder {
    fn run(&mut self, graph: &Graph, effect: Effect, same_memory: &[TensorId], node: TensorId, step: Step) {
        let tensors = graph.tensors().len();
        let memory = |id: TensorId| tensors + same_memory[graph.root(id) as usize] as usize;
        for &source in graph.sources(node) {
            if source != node {
                self.read(source as usize, step);
            }
            match effect {
                Effect::Sources | Effect::Anything => self.write(memory(source), step),
                _ => self.read(memory(source), step),
            }
        }
        self.write(node as usize, step);
        let only_looks = effect == Effect::View && graph.tensor(node).view.is_some();
        if only_looks || graph.tensor(node).is_marker() {
            self.read(graph.root(node) as usize, step);
            self.read(memory(node), step);
        } else {
            self.write(memory(node), step);
        }
    }

    fn read(&mut self, thing: usize, step: Step) {
        if let Some(writer) = self.uses[thing].written {
            self.order(writer, step);
        }
        if self.uses[thing].read.last() != Some(&step) {
            self.uses[thing].read.push(step);
        }
    }

    fn write(&mut self, thing: usize, step: Step) {
        if let Some(writer) = self.uses[thing].written.replace(step) {
            self.order(writer, step);
        }
        for reader in std::mem::take(&mut self.uses[thing].read) {
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

    /// Whoever has nobody else behind it must stay before the last.
    fn keep_the_last(&mut self) {
        let mut is_awaited = vec![false; self.before.len()];
        self.before.iter().flatten().for_each(|&earlier| is_awaited[earlier as usize] = true);
        if let Some(last) = self.before.last_mut() {
            is_awaited.pop();
            last.extend((0..).zip(is_awaited).filter(|(_, is_awaited)| !is_awaited).map(|(step, _)| step));
            last.sort_unstable();
        }
    }
}
