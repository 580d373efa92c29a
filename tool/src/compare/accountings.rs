//! What devices held at their peaks, from accountings and reports.

use std::collections::{BTreeMap, HashSet};

use lastuse::accounting::{AccountedBuffer, AccountedTensor, Accounting, MemoryClass, Sums};
use lastuse::graph::extents;
use lastuse::offload::rules::copied_name;
use lastuse::placement::Bytes;

use crate::report::{Holder, PeakTensor, group_name};

/// Returns what the devices of all processes held.
pub fn holders(processes: &[Accounting]) -> Vec<Holder> {
    let mut all = Vec::new();
    for accounting in processes {
        for device in &accounting.devices {
            let on_device = accounting.buffers.iter().filter(|buffer| buffer.device == device.name);
            let tensors = on_device.flat_map(|buffer| at_peak(accounting, buffer)).map(peak_tensor).collect();
            add(&mut all, &device.name, &device.sums, Some(tensors));
        }
    }
    all
}

/// Adds what a process held on a device, with its tensors where they are known.
pub fn add(all: &mut Vec<Holder>, device: &str, sums: &Sums, tensors: Option<Vec<PeakTensor>>) {
    match all.iter_mut().find(|holder| holder.name == device) {
        Some(holder) => {
            holder.sums.add(sums);
            holder.tensors = holder.tensors.take().zip(tensors).map(|(mut all, more)| {
                all.extend(more);
                all
            });
        }
        None => all.push(Holder { name: device.to_owned(), sums: *sums, tensors, plan: None }),
    }
}

fn peak_tensor(AtPeak { tensor, bytes, .. }: AtPeak<'_>) -> PeakTensor {
    let shape = format!("{} {}", tensor.element, extents(&tensor.ne));
    PeakTensor { group: group_name(&tensor.name, &tensor.op), class: tensor.class, bytes, shape }
}

/// A tensor of a buffer at its peak.
pub struct AtPeak<'a> {
    pub tensor: &'a AccountedTensor,
    /// Its bytes that no tensor before it takes.
    pub bytes: Bytes,
    /// The position of its graph; that after the last one for tensors that no graph has.
    pub graph: usize,
}

/// Returns the tensors of a buffer at its peak: weights, caches, and what is live at the step of a graph with the most live bytes.
pub fn at_peak<'a>(accounting: &'a Accounting, buffer: &AccountedBuffer) -> Vec<AtPeak<'a>> {
    let is_here = |tensor: &&AccountedTensor| {
        tensor.view_of.is_none() && tensor.location.is_some_and(|location| location.buffer == buffer.id)
    };
    let graphs = accounting.graphs.iter().map(|graph| &graph.tensors).chain([&accounting.unread]);
    let (mut live, mut held) = ((0, Vec::new()), Vec::new());
    for (graph, tensors) in graphs.enumerate() {
        let here: Vec<_> = tensors.iter().filter(is_here).collect();
        let of_graph = live_at_peak(&here, &SplitCopies::of(tensors));
        if union(&of_graph) > union(&live.1) {
            live = (graph, of_graph);
        }
        held.extend(here.into_iter().filter(|tensor| !is_compute(tensor)).map(|tensor| (graph, tensor)));
    }
    held.extend(live.1.into_iter().map(|tensor| (live.0, tensor)));
    // As in the sums of a buffer, a byte of several classes is of the first.
    held.sort_by_key(|(_, tensor)| tensor.class);
    let mut covered = Covered::default();
    let all = held.into_iter().map(|(graph, tensor)| AtPeak { tensor, bytes: covered.add(tensor), graph });
    all.filter(|at_peak| at_peak.bytes > 0).collect()
}

/// The copies that a scheduler has made of tensors of a graph.
pub struct SplitCopies<'a> {
    /// The names of all tensors.
    names: HashSet<&'a str>,
}

impl<'a> SplitCopies<'a> {
    /// Returns those of a graph with these tensors.
    pub fn of(tensors: &'a [AccountedTensor]) -> Self {
        Self { names: tensors.iter().map(|tensor| &*tensor.name).collect() }
    }

    /// Returns the name of the tensor that this one is a copy of, and the number of the copy.
    pub fn copied<'t>(&self, tensor: &'t AccountedTensor) -> Option<(&'t str, u32)> {
        copied_name(&tensor.name).filter(|(name, _)| tensor.op == "NONE" && self.names.contains(name))
    }
}

fn is_compute(tensor: &AccountedTensor) -> bool {
    tensor.class == MemoryClass::Compute
}

/// Returns the intermediates of a graph that are live at the step where these take the most bytes, and the inputs that none of
/// its nodes reads: in a pipeline, each batch has copies of the inputs that others do not read.
fn live_at_peak<'a>(tensors: &[&'a AccountedTensor], copies: &SplitCopies<'_>) -> Vec<&'a AccountedTensor> {
    let is_input = |tensor: &&AccountedTensor| is_compute(tensor) && tensor.op == "NONE";
    let is_pipeline = tensors.iter().any(|tensor| copies.copied(tensor).is_some_and(|(_, number)| number > 0));
    let needed = |tensor: &&'a AccountedTensor| {
        let steps = tensor.steps.filter(|_| is_compute(tensor))?;
        // An input has its value before the graph runs; a scheduler makes copies as it runs, except in a pipeline.
        let is_there = is_input(tensor) && (is_pipeline || copies.copied(tensor).is_none());
        Some((if is_there { 0 } else { steps.first }, steps.last, *tensor))
    };
    let mut needed: Vec<_> = tensors.iter().filter_map(needed).collect();
    needed.sort_by_key(|&(first, ..)| first);
    let (mut live, mut most, mut at_most) = (Vec::new(), 0, Vec::new());
    for of_step in needed.chunk_by(|one, other| one.0 == other.0) {
        let step = of_step[0].0;
        live.retain(|&(_, last, _)| last >= step);
        live.extend_from_slice(of_step);
        let at_step: Vec<&AccountedTensor> = live.iter().map(|&(.., tensor)| tensor).collect();
        let bytes = union(&at_step);
        if bytes > most {
            (most, at_most) = (bytes, at_step);
        }
    }
    at_most.extend(tensors.iter().filter(|tensor| tensor.steps.is_none() && is_input(tensor)));
    at_most
}

/// Returns the bytes of a buffer that at least one of the tensors takes.
fn union(tensors: &[&AccountedTensor]) -> Bytes {
    let mut covered = Covered::default();
    tensors.iter().map(|tensor| covered.add(tensor)).sum()
}

/// Disjoint ranges of a buffer: the end of each by its start.
#[derive(Default)]
struct Covered(BTreeMap<Bytes, Bytes>);

impl Covered {
    /// Adds the bytes of a tensor, and returns how many were not covered before.
    fn add(&mut self, tensor: &AccountedTensor) -> Bytes {
        let Some(location) = tensor.location else { return 0 };
        let (mut start, mut end) = (location.offset, location.offset.saturating_add(tensor.bytes));
        if start == end {
            return 0;
        }
        let mut new = end - start;
        while let Some((&from, &to)) = self.0.range(..=end).next_back().filter(|(_, to)| **to >= start) {
            new -= to.min(location.offset.saturating_add(tensor.bytes)).saturating_sub(from.max(location.offset));
            (start, end) = (start.min(from), end.max(to));
            self.0.remove(&from);
        }
        self.0.insert(start, end);
        new
    }
}

#[cfg(test)]
mod tests {
    use lastuse::accounting::Location;

    use super::*;
    use crate::compare::tests::tensor;

    #[test]
    fn bytes_are_covered_once() {
        let mut covered = Covered::default();
        let mut add = |offset, bytes| {
            covered.add(&AccountedTensor { location: Some(Location { buffer: 1, offset }), bytes, ..tensor("x") })
        };
        assert_eq!([add(0, 10), add(20, 10), add(5, 20), add(0, 30), add(40, 0)], [10, 10, 10, 0, 0]);
        assert_eq!([add(30, 5), add(35, 5), add(25, 30), add(0, 100)], [5, 5, 15, 45]);
    }
}
