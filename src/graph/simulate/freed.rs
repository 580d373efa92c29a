//! Which bytes become free at which step of a simulation.

use crate::graph::{AddressMap, Graph, Region, TensorId};
use crate::placement::{Offset, Step};

use super::contents::Contents;
use super::roles::{results, retained_values, skipped_nodes};

/// Bytes that hold no live value.
#[derive(Clone, Debug, Default)]
pub struct Freed {
    /// Free before the first step. Values that the graph does not compute are never free.
    pub at_start: Vec<Region>,
    /// By step: what becomes free after it.
    pub after: Vec<Vec<Region>>,
}

/// Simulates `graph`, which must run correctly at `addresses`, and returns which bytes become free when.
pub fn freed(graph: &Graph, addresses: &AddressMap) -> Freed {
    let mut tracker = FreeTracker::new(graph, addresses);
    let at_start =
        (0..).zip(&addresses.spaces).flat_map(|(space, &size)| tracker.contents.gaps_in(space, size)).collect();
    let after = (0..).zip(graph.nodes()).map(|(step, &node)| tracker.run(step, node)).collect();
    Freed { at_start, after }
}

/// Returns the tensor whose value is the first in `region` while `step` runs.
pub fn owner_at(graph: &Graph, addresses: &AddressMap, step: Step, region: Region) -> Option<TensorId> {
    let mut tracker = FreeTracker::new(graph, addresses);
    for (step, &node) in (0..step).zip(graph.nodes()) {
        tracker.run(step, node);
    }
    tracker.contents.first_in(region).map(|(owner, _)| owner)
}

struct FreeTracker<'a> {
    graph: &'a Graph,
    addresses: &'a AddressMap,
    contents: Contents,
    /// By tensor: whether it is a node that backends skip.
    skipped: Vec<bool>,
    /// By step: the computed tensors whose last use it is.
    ending: Vec<Vec<TensorId>>,
}

impl<'a> FreeTracker<'a> {
    fn new(graph: &'a Graph, addresses: &'a AddressMap) -> Self {
        let skipped = skipped_nodes(graph);
        let ending = ending(graph, &skipped);
        let mut tracker = Self { graph, addresses, contents: Contents::default(), skipped, ending };
        for id in (0..).take(graph.tensors().len()).filter(|&id| !is_computed(graph, id)) {
            tracker.write(id);
        }
        for &node in graph.nodes().iter().filter(|&&node| graph.tensor(node).is_marker()) {
            tracker.write(node);
        }
        tracker
    }

    fn write(&mut self, id: TensorId) {
        let region = self.addresses.region(id).filter(|&region| self.addresses.contain(region));
        if let Some(region) = region.filter(|_| self.graph.tensor(id).is_owned()) {
            self.contents.write(region, id);
        }
    }

    /// Runs a node, and returns what becomes free after it.
    fn run(&mut self, step: Step, node: TensorId) -> Vec<Region> {
        if is_computed(self.graph, node) && !self.skipped[node as usize] {
            self.write(node);
        }
        let mut free = Vec::new();
        for id in std::mem::take(&mut self.ending[step as usize]) {
            let Some(region) = self.addresses.region(id) else { continue };
            let own: Vec<Region> = self.contents.of_owner_in(region, id).collect();
            own.iter().for_each(|&region| self.contents.clear(region));
            free.extend(own);
        }
        free
    }
}

fn is_computed(graph: &Graph, id: TensorId) -> bool {
    !graph.tensor(id).is_marker() && graph.tensor(id).is_owned()
}

/// Returns, by step, the nodes whose last use it is.
fn ending(graph: &Graph, skipped: &[bool]) -> Vec<Vec<TensorId>> {
    let defs = graph.first_defs();
    let mut last = defs.clone();
    for (step, &node) in (0..).zip(graph.nodes()).filter(|(_, node)| !skipped[**node as usize]) {
        for &id in graph.sources(node).iter().chain([&node]) {
            let last = &mut last[graph.root(id) as usize];
            *last = (*last).max(Some(step));
        }
    }
    for (id, is_result) in (0..).zip(results(graph, &defs, skipped)) {
        if is_result {
            last[graph.root(id) as usize] = None;
        }
    }
    for (id, until) in retained_values(graph, skipped) {
        let last = &mut last[graph.root(id) as usize];
        *last = last.and_then(|last| Some(last.max(until?)));
    }
    let mut ending = vec![Vec::new(); graph.nodes().len()];
    for (id, last) in (0..).zip(last) {
        if let Some(step) = last.filter(|_| is_computed(graph, id)) {
            ending[step as usize].push(id);
        }
    }
    ending
}

impl Contents {
    /// Returns the bytes of a space of this size that hold nothing.
    fn gaps_in(&self, space: u32, size: Offset) -> Vec<Region> {
        let mut gaps = Vec::new();
        let mut at = 0;
        while at < size {
            let rest = Region { space, start: at, end: size };
            let next = self.first_in(rest).map_or(Region { start: size, ..rest }, |(_, bytes)| bytes);
            if next.start > at {
                gaps.push(Region { end: next.start, ..rest });
            }
            at = next.end.max(next.start);
        }
        gaps
    }
}
