//! The simulation of a graph, step by step.

use crate::graph::{AddressMap, Flags, Graph, GraphPlan, Op, Region, TensorId, accessing_nodes, read_inputs};
use crate::placement::{Bytes, Step};

use super::contents::{Contents, Mismatch};
use super::corruption::{Corruption, Finding, Findings};
use super::roles::{known_tensors, results, retained_values, skipped_nodes};

/// Simulates `graph` on `plan`. `nbytes` has, by tensor, the bytes from its first to its last element.
///
/// # Errors
/// The first [`Corruption`] found.
pub fn simulate(graph: &Graph, plan: &GraphPlan, nbytes: &[Bytes]) -> Result<(), Corruption> {
    let findings = simulate_at(graph, &AddressMap::of_plan(plan), nbytes, 1);
    findings.first().map_or(Ok(()), |finding| Err(finding.corruption))
}

/// Simulates `graph` with its tensors at `addresses`. Returns the corruptions in the order in which they happen; each
/// pair of tensors is reported once. Stops after `limit` findings. `nbytes` has, by tensor, the bytes from its first to
/// its last element.
pub fn simulate_at(graph: &Graph, addresses: &AddressMap, nbytes: &[Bytes], limit: usize) -> Vec<Finding> {
    let (defs, skipped) = (graph.first_defs(), skipped_nodes(graph));
    let retained = retained_values(graph, &skipped);
    let mut run = Simulation::start(graph, addresses, nbytes, limit);
    for (step, &node) in (0..).zip(graph.nodes()) {
        if run.found.is_full() {
            return run.found.list;
        }
        if !skipped[node as usize] {
            run.run(node, step, &defs);
        }
        run.check_retained(&retained, Some(step));
    }
    run.check_retained(&retained, None);
    run.check_results(&defs, &skipped);
    run.found.list
}

/// Simulates `graph` twice with its tensors at `addresses`, without setting its inputs again. Returns where the second run
/// reads an input that was overwritten, for each input the first time.
pub fn simulate_again(graph: &Graph, addresses: &AddressMap, nbytes: &[Bytes]) -> Vec<Finding> {
    let defs = graph.first_defs();
    let mut inputs = read_inputs(graph);
    let mut run = Simulation::start(graph, addresses, nbytes, usize::MAX);
    run.writes_elements = true;
    run.set(&inputs);
    // Nodes that backends skip write nothing, even if they are read.
    (0..)
        .zip(skipped_nodes(graph))
        .filter(|(_, is_skipped)| *is_skipped)
        .for_each(|(id, _): (usize, _)| run.written[id] = true);
    for _ in 0..2 {
        run.found = Findings::new(usize::MAX);
        accessing_nodes(graph).for_each(|(step, node)| run.run(node, step, &defs));
    }
    let mut lost = run.found.list;
    lost.retain(|finding| match finding.corruption {
        Corruption::Overwritten { expected, .. } => {
            let at = inputs.iter().position(|&input| input == expected);
            at.is_some_and(|at| inputs.swap_remove(at) == expected)
        }
        _ => false,
    });
    lost
}

struct Simulation<'a> {
    graph: &'a Graph,
    addresses: &'a AddressMap,
    nbytes: &'a [Bytes],
    contents: Contents,
    /// By root: whether it has a value.
    written: Vec<bool>,
    known: Vec<bool>,
    /// Whether nodes write only their elements, and not all that their buffer types require.
    writes_elements: bool,
    found: Findings,
}

impl<'a> Simulation<'a> {
    /// Starts a simulation, which stops after `limit` findings: all values are there that must be there before the first
    /// step.
    fn start(graph: &'a Graph, addresses: &'a AddressMap, nbytes: &'a [Bytes], limit: usize) -> Self {
        let (written, known) = (vec![false; graph.tensors().len()], known_tensors(graph));
        let found = Findings::new(limit);
        let mut run = Self {
            graph,
            addresses,
            nbytes,
            contents: Contents::default(),
            written,
            known,
            writes_elements: false,
            found,
        };
        run.write_starting_values();
        run
    }

    fn write_starting_values(&mut self) {
        let graph = self.graph;
        let inputs = (0..).zip(graph.tensors()).filter(|(_, t)| t.flags.has(Flags::INPUT)).map(|(id, _)| id);
        for id in graph.leafs().iter().copied().chain(inputs) {
            if graph.tensor(id).is_owned() && !self.written[id as usize] && self.addresses.region(id).is_some() {
                let Some(region) = self.checked_region(id) else { continue };
                if let Some((first, bytes)) = self.contents.first_in(region) {
                    self.found.add(Corruption::SharedStart { first, second: id }, Some(bytes), first, Some(id));
                }
                self.write(id, region);
            }
        }
    }

    /// Sets inputs before the first step. That writes only their elements: what their buffer types require beyond may
    /// overlap another input that ggml's allocator frees before it allocates this one.
    fn set(&mut self, inputs: &[TensorId]) {
        for &input in inputs {
            if let Some(region) = self.checked_region(input) {
                self.write(input, region);
            }
        }
        for &input in inputs {
            if let Some(elements) = self.span(input) {
                self.write(input, elements);
            }
        }
    }

    /// Runs a node that backends do not skip.
    fn run(&mut self, node: TensorId, step: Step, defs: &[Option<Step>]) {
        let graph = self.graph;
        for &source in graph.sources(node) {
            let root = graph.root(source) as usize;
            // A control dependency may be before the def of a source, and does not define it.
            let comes_later = defs[root].is_some_and(|at| at > step) || (defs[root].is_none() && !self.written[root]);
            if !(graph.tensor(node).is_marker() && comes_later) && source != node {
                self.read(source, step);
            }
        }
        if !graph.tensor(node).is_marker() {
            self.compute(node, step);
        }
    }

    fn read(&mut self, id: TensorId, step: Step) {
        let expected = self.graph.root(id);
        if let Some(Mismatch { found, bytes }) = self.mismatch(id) {
            self.found.add(Corruption::Overwritten { step, expected, found }, Some(bytes), expected, found);
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
        let elements = self.span(node).filter(|_| self.writes_elements);
        self.write(node, elements.unwrap_or(region));
    }

    fn overlaps(&self, source: TensorId, region: Region) -> bool {
        self.span(source).is_some_and(|span| span.shares_bytes(region))
    }

    /// Returns `true` if the result may be where the source in this slot is: only if no other source is there.
    fn may_overwrite(&self, node: TensorId, slot: usize, region: Region) -> bool {
        let (graph, sources) = (self.graph, self.graph.sources(node));
        let tensor = graph.tensor(node);
        let Some(span) = self.span(sources[slot]) else { return true };
        let is_alone = (0..sources.len())
            .filter(|&other| other != slot && sources[other] != node)
            .all(|other| !self.span(sources[other]).is_some_and(|it| it.shares_bytes(span)));
        let is_in_place = tensor.in_place.may_write_over(slot)
            && graph.layout(node) == graph.layout(sources[slot])
            && span.start == region.start
            && sources.iter().filter(|&&other| other != node && self.overlaps(other, region)).count() == 1;
        let is_inside = tensor.op == Op::Concat
            && self
                .offset_in_concat(node, slot)
                .is_some_and(|within| span.start.checked_sub(region.start) == Some(within));
        is_alone && (is_in_place || is_inside)
    }

    /// Returns the bytes from the start of the result of a CONCAT to a source in it, if the result holds the source in
    /// one piece.
    fn offset_in_concat(&self, node: TensorId, slot: usize) -> Option<Bytes> {
        let result = self.graph.layout(node);
        let part = self.graph.layout(*self.graph.sources(node).get(slot)?);
        let joined = (0..4).rev().find(|&dimension| result.ne[dimension] != 1)?;
        let same = |dimension: usize| dimension == joined || part.ne[dimension] == result.ne[dimension];
        let extents = self.graph.sources(node)[..slot].iter().map(|&id| self.graph.layout(id).ne[joined]);
        let before = Bytes::try_from(extents.fold(0, i64::saturating_add)).ok()?;
        let is_dense = part.element == result.element && part.nb[..=joined] == result.nb[..=joined];
        if is_dense && (0..4).all(same) { result.nb[joined].checked_mul(before) } else { None }
    }

    /// Checks those of the `retained` tensors, in the order of their ends, that are retained until this step, or to the
    /// end, as far as they were computed.
    fn check_retained(&mut self, retained: &[(TensorId, Option<Step>)], until: Option<Step>) {
        let first = retained.partition_point(|(_, end)| *end < until);
        for &(id, _) in retained[first..].iter().take_while(|(_, end)| *end == until) {
            let expected = self.graph.root(id);
            if self.written[expected as usize]
                && let Some(Mismatch { found, bytes }) = self.mismatch(id)
            {
                self.found.add(Corruption::LostRetained { expected, found, until }, Some(bytes), expected, found);
            }
        }
    }

    fn check_results(&mut self, defs: &[Option<Step>], skipped: &[bool]) {
        let graph = self.graph;
        let is_result = results(graph, defs, skipped);
        for (id, _) in (0..).zip(graph.tensors()) {
            let expected = graph.root(id);
            if is_result[id as usize]
                && self.written[expected as usize]
                && let Some(Mismatch { found, bytes }) = self.mismatch(id)
            {
                self.found.add(Corruption::LostResult { expected, found }, Some(bytes), expected, found);
            }
        }
    }

    /// Returns the first bytes of `id` that do not hold the value of its root.
    fn mismatch(&mut self, id: TensorId) -> Option<Mismatch> {
        let root = self.graph.root(id);
        let unknown = !self.known[root as usize] && self.addresses.region(root).is_none();
        if unknown || !self.graph.tensor(root).is_owned() {
            return None;
        }
        let region = self.checked_region(root)?;
        if !self.written[root as usize] {
            // Used without a def: it is set before its first use.
            self.write(root, region);
        }
        self.contents.mismatch_in(self.span(id)?, root)
    }

    fn write(&mut self, id: TensorId, region: Region) {
        self.written[id as usize] = true;
        self.contents.write(region, id);
    }

    /// Returns the bytes of an owned tensor; reports it if it has none or they are out of bounds.
    fn checked_region(&mut self, id: TensorId) -> Option<Region> {
        let Some(region) = self.addresses.region(id) else {
            self.found.add(Corruption::NoMemory(id), None, id, None);
            return None;
        };
        if !self.addresses.contain(region) {
            let size = self.addresses.spaces.get(region.space as usize).copied().unwrap_or(0);
            let beyond = Region { start: region.start.max(size), ..region };
            self.found.add(Corruption::OutOfChunk(id), Some(beyond), id, None);
            return None;
        }
        Some(region)
    }

    /// Returns the bytes from the first to the last element of a tensor or view.
    fn span(&self, id: TensorId) -> Option<Region> {
        let tensor = self.graph.tensor(id);
        let region = self.addresses.region(self.graph.root(id))?;
        let offset = tensor.view.map_or(0, |view| view.offset);
        let start = region.start.saturating_add(offset).min(region.end);
        Some(Region { start, end: start.saturating_add(self.nbytes[id as usize]).min(region.end), ..region })
    }
}
