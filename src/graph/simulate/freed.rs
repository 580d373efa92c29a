//! Which bytes hold nothing that anybody needs any more, and from when on.

use crate::graph::{Graph, TensorId};
use crate::placement::{Offset, Step};

use super::memory::Memory;
use super::{Places, Region, computing_steps, lasting, skipped_nodes};

/// Bytes without a value.
#[derive(Clone, Debug, Default)]
pub struct Freed {
    /// Before the first step. Where values lie that the graph does not compute nothing is free, then or later.
    pub at_start: Vec<Region>,
    /// By step: what becomes free when it is done.
    pub after: Vec<Vec<Region>>,
}

/// Runs `graph`, which must be right at `places`, and watches which bytes become free.
pub fn freed(graph: &Graph, places: &Places) -> Freed {
    let mut walk = Walk::new(graph, places);
    let at_start = (0..).zip(&places.spaces).flat_map(|(space, &size)| walk.memory.gaps_in(space, size)).collect();
    let after = (0..).zip(graph.nodes()).map(|(step, &node)| walk.run(step, node)).collect();
    Freed { at_start, after }
}

/// Whose value the first byte of `region` that holds one holds while `step` runs.
pub fn owner_at(graph: &Graph, places: &Places, step: Step, region: Region) -> Option<TensorId> {
    let mut walk = Walk::new(graph, places);
    for (step, &node) in (0..step).zip(graph.nodes()) {
        walk.run(step, node);
    }
    walk.memory.anyone_in(region).map(|(owner, _)| owner)
}

struct Walk<'a> {
    graph: &'a Graph,
    places: &'a Places,
    memory: Memory,
    /// By tensor: is it a node that backends skip?
    skipped: Vec<bool>,
    /// By step: what is computed, and read then for the last time.
    dying: Vec<Vec<TensorId>>,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph, places: &'a Places) -> Self {
        let skipped = skipped_nodes(graph);
        let dying = dying(graph, &skipped);
        let mut walk = Self { graph, places, memory: Memory::default(), skipped, dying };
        for id in (0..).take(graph.tensors().len()).filter(|&id| !is_computed(graph, id)) {
            walk.write(id);
        }
        for &node in graph.nodes().iter().filter(|&&node| graph.tensor(node).is_marker()) {
            walk.write(node);
        }
        walk
    }

    fn write(&mut self, id: TensorId) {
        let region = self.places.region(id).filter(|&region| self.places.contain(region));
        if let Some(region) = region.filter(|_| self.graph.tensor(id).is_owned()) {
            self.memory.write(region, id);
        }
    }

    /// Runs a node, and answers what is free afterwards.
    fn run(&mut self, step: Step, node: TensorId) -> Vec<Region> {
        if is_computed(self.graph, node) && !self.skipped[node as usize] {
            self.write(node);
        }
        let mut free = Vec::new();
        for id in std::mem::take(&mut self.dying[step as usize]) {
            let Some(region) = self.places.region(id) else { continue };
            let own: Vec<Region> = self.memory.of_owner_in(region, id).collect();
            own.iter().for_each(|&region| self.memory.clear(region));
            free.extend(own);
        }
        free
    }
}

fn is_computed(graph: &Graph, id: TensorId) -> bool {
    !graph.tensor(id).is_marker() && graph.tensor(id).is_owned()
}

/// By step: the nodes that are needed for the last time.
fn dying(graph: &Graph, skipped: &[bool]) -> Vec<Vec<TensorId>> {
    let steps = computing_steps(graph);
    let mut last = steps.clone();
    for (step, &node) in (0..).zip(graph.nodes()).filter(|(_, node)| !skipped[**node as usize]) {
        for &id in graph.sources(node).iter().chain([&node]) {
            let last = &mut last[graph.root(id) as usize];
            *last = (*last).max(Some(step));
        }
    }
    for (id, lasts) in (0..).zip(lasting(graph, &steps, skipped)) {
        if lasts {
            last[graph.root(id) as usize] = None;
        }
    }
    let mut dying = vec![Vec::new(); graph.nodes().len()];
    for (id, last) in (0..).zip(last) {
        if let Some(step) = last.filter(|_| is_computed(graph, id)) {
            dying[step as usize].push(id);
        }
    }
    dying
}

impl Memory {
    /// The bytes of a space of this size that hold nothing.
    fn gaps_in(&self, space: u32, size: Offset) -> Vec<Region> {
        let mut gaps = Vec::new();
        let mut at = 0;
        while at < size {
            let rest = Region { space, start: at, end: size };
            let next = self.anyone_in(rest).map_or(Region { start: size, ..rest }, |(_, bytes)| bytes);
            if next.start > at {
                gaps.push(Region { end: next.start, ..rest });
            }
            at = next.end.max(next.start);
        }
        gaps
    }
}
