//! Which sequences run as one kernel at given addresses, and where kernels wait.

use crate::graph::{Address, Graph, Op, TensorId};
use crate::placement::Bytes;

use super::sequences::{Kernels, Run, Sequence};

/// The cost of addresses on a device. Fewer is better; a sequence that is not fused counts before barriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct KernelCosts {
    /// Sequences that run as several kernels, since a result overlaps what the fused kernel would still read.
    pub not_fused: u32,
    /// How often kernels wait for those before them.
    pub barriers: u32,
    /// Sequences that run as one kernel.
    pub fused: u32,
}

/// Where the memory of a root is: one space for each chunk of the buffer, and one for each tensor outside of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// A chunk of a buffer.
    Chunk(u32, u32),
    /// The memory of a tensor that is not planned.
    Own(TensorId),
}

/// Bytes that a kernel reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    space: Space,
    start: Bytes,
    len: Bytes,
}

impl Range {
    /// Compares as backends do: an empty range overlaps the one that it begins in.
    fn overlaps(self, other: Self) -> bool {
        let begins_in = |a: Self, b: Self| b.start <= a.start && a.start < b.start.saturating_add(b.len);
        self.space == other.space && (begins_in(self, other) || begins_in(other, self))
    }
}

/// Counts the cost of the addresses. `nbytes` returns the bytes from the first to the last element of a tensor, and
/// `address` the address of a root; `None` for one that is not planned.
pub fn costs_at(
    kernels: &Kernels,
    graph: &Graph,
    nbytes: &dyn Fn(TensorId) -> Bytes,
    address: &dyn Fn(TensorId) -> Option<Address>,
) -> KernelCosts {
    let mut costs = KernelCosts::default();
    for run in &kernels.runs {
        Replay { run, graph, nbytes, address, written: Vec::new(), read: Vec::new() }
            .count(kernels.has_barriers, &mut costs);
    }
    costs
}

struct Replay<'a> {
    run: &'a Run,
    graph: &'a Graph,
    nbytes: &'a dyn Fn(TensorId) -> Bytes,
    address: &'a dyn Fn(TensorId) -> Option<Address>,
    /// Memory that kernels since the last barrier write and read.
    written: Vec<Range>,
    read: Vec<Range>,
}

impl Replay<'_> {
    fn count(mut self, has_barriers: bool, costs: &mut KernelCosts) {
        let mut at = 0;
        while at < self.run.ids.len() {
            let sequence = self.run.sequences[at];
            let fused = sequence.filter(|sequence| self.can_fuse(at, sequence));
            costs.fused += u32::from(fused.is_some());
            costs.not_fused += u32::from(sequence.is_some() && fused.is_none());
            let single = Sequence { len: 1, exact_aliases: 0, also_written: None };
            if has_barriers && self.run.runs[at] {
                costs.barriers += u32::from(self.run_kernel(at, &fused.unwrap_or(single)));
            }
            at += fused.map_or(1, |sequence| sequence.len);
        }
    }

    /// Returns `true` if no result of the sequence overlaps what its kernel reads from outside.
    fn can_fuse(&self, first: usize, sequence: &Sequence) -> bool {
        sequence.results(first).all(|result| {
            let result = self.range(self.run.ids[result]);
            (0..sequence.len).all(|at| {
                let tolerates = sequence.exact_aliases & 1 << at != 0;
                let inside = &self.run.ids[first..first + at];
                self.graph.sources(self.run.ids[first + at]).iter().all(|source| {
                    let range = self.range(*source);
                    self.graph.tensor(*source).op == Op::None
                        || inside.contains(source)
                        || (tolerates && (range.start, range.len) == (result.start, result.len))
                        || !range.overlaps(result)
                })
            })
        })
    }

    /// Notes the memory that a kernel reads and writes. Returns `true` if it waits.
    fn run_kernel(&mut self, first: usize, sequence: &Sequence) -> bool {
        let written: Vec<Range> = sequence.results(first).map(|at| self.range(self.run.ids[at])).collect();
        let sources = self.run.ids[first..first + sequence.len].iter().flat_map(|&id| self.graph.sources(id));
        let read: Vec<Range> = sources.map(|&source| self.range(source)).collect();
        let touches = |ranges: &[Range], earlier: &[Range]| {
            ranges.iter().any(|range| earlier.iter().any(|earlier| range.overlaps(*earlier)))
        };
        let waits = touches(&written, &self.read) || touches(&written, &self.written) || touches(&read, &self.written);
        if waits {
            self.read.clear();
            self.written.clear();
        }
        self.written.extend(written);
        self.read.extend(read);
        waits
    }

    fn range(&self, tensor: TensorId) -> Range {
        let root = self.graph.root(tensor);
        let offset = self.graph.tensor(tensor).view.map_or(0, |view| view.offset);
        let (space, start) = match (self.address)(root) {
            Some(Address { buffer, chunk, offset }) => (Space::Chunk(buffer, chunk), offset),
            None => (Space::Own(root), 0),
        };
        Range { space, start: start.saturating_add(offset), len: (self.nbytes)(tensor) }
    }
}

impl Sequence {
    /// Returns the positions of written results.
    fn results(self, first: usize) -> impl Iterator<Item = usize> {
        self.also_written.into_iter().chain([self.len - 1]).map(move |at| first + at)
    }
}
