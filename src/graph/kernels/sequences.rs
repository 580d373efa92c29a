//! Where the sequences of a backend are in a graph.

use std::ops::Range;

use crate::graph::{BufferIndex, Device, Graph, Op, Requests, TensorId};
use crate::placement::Bytes;

use super::nodes::{Desc, Nodes};
use super::patterns::{Candidate, Links, Pattern, has_barriers, patterns};

/// The nodes that a device computes, and those that its backend may run as one kernel.
#[derive(Debug)]
pub struct Kernels {
    /// The nodes between those of other devices.
    pub(super) runs: Vec<Run>,
    /// Whether kernels run side by side until one waits.
    pub(super) has_barriers: bool,
}

/// Nodes that a device computes in a row.
#[derive(Debug)]
pub(super) struct Run {
    pub ids: Vec<TensorId>,
    /// By position: whether a kernel runs for it alone.
    pub runs: Vec<bool>,
    /// By position: the sequence that begins there.
    pub sequences: Vec<Option<Sequence>>,
}

/// Nodes that a backend runs as one kernel, if their addresses allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    pub len: usize,
    /// The nodes, as bits, whose sources may have the memory of a result, if exactly that.
    pub exact_aliases: u16,
    /// A node before the last one whose result is written too.
    pub also_written: Option<usize>,
}

impl Kernels {
    /// Finds the sequences among the nodes requested in `buffer`, whose alignment is in bytes, for a device. The layouts of all
    /// tensors are known. `None` for a
    /// device on which costs do not depend on addresses, or whose backend is not known.
    pub fn find(
        graph: &Graph,
        requests: Requests<'_>,
        (buffer, device, alignment): (BufferIndex, Device, Bytes),
        desc: Desc<'_>,
    ) -> Option<Self> {
        if !device.fuses_by_address() {
            return None;
        }
        let patterns = patterns(device);
        let (uses, skips_inactive) = (&graph.use_counts(), graph.has_flag_compute());
        let runs = in_buffer(graph.nodes().len(), requests.nodes, buffer).into_iter();
        let run = |ids: &[TensorId]| Run::new(&Nodes { graph, desc, ids, uses, skips_inactive, alignment }, patterns);
        Some(Self { runs: runs.map(|range| run(&graph.nodes()[range])).collect(), has_barriers: has_barriers(device) })
    }
}

/// Returns the ranges of nodes requested in `buffer`.
fn in_buffer(nodes: usize, requested: &[BufferIndex], buffer: BufferIndex) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for at in (0..nodes).filter(|&at| requested.get(at) == Some(&buffer)) {
        match ranges.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => ranges.push(at..at + 1),
        }
    }
    ranges
}

impl Run {
    fn new(nodes: &Nodes<'_>, patterns: &[Pattern]) -> Self {
        let positions = 0..nodes.ids.len();
        Self {
            ids: nodes.ids.to_vec(),
            runs: positions.clone().map(|at| nodes.runs(at)).collect(),
            sequences: positions.map(|at| patterns.iter().find_map(|pattern| pattern.at(nodes, at))).collect(),
        }
    }
}

impl Pattern {
    /// Returns the sequence that begins at a position, if this pattern does.
    fn at(&self, nodes: &Nodes<'_>, first: usize) -> Option<Sequence> {
        let len = self.ops.len();
        let has_ops = (first..).zip(self.ops).all(|(at, &op)| nodes.computes(at, op));
        if !has_ops || !self.is_linked(nodes, first) || !(self.condition)(&Candidate { nodes, first, len }) {
            return None;
        }
        let end = first + len;
        let is_scaled =
            self.takes_scale && nodes.computes(end, Op::Scale) && nodes.is_read_only_by(end - 1, end..end + 1);
        let Self { exact_aliases, also_written, .. } = *self;
        Some(Sequence { len: len + usize::from(is_scaled), exact_aliases, also_written })
    }

    fn is_linked(&self, nodes: &Nodes<'_>, first: usize) -> bool {
        let end = first + self.ops.len();
        match self.links {
            Links::Chain => (first..end - 1).all(|at| {
                let (id, next) = (nodes.ids[at], nodes.ids[at + 1]);
                !nodes.is_view(at)
                    && nodes.sources(at + 1).iter().take(2).any(|&source| source == id)
                    && nodes.is_read_only_by(at, at + 1..at + 2)
                    && nodes.same_shape(id, next)
            }),
            Links::Edges(edges) => {
                let is_edge = |&[user, slot, source]: &[usize; 3]| {
                    nodes.sources(first + user).get(slot) == Some(&nodes.ids[first + source])
                };
                let is_inside = |at: usize| {
                    let is_written = self.also_written == Some(at - first) || at == end - 1;
                    is_written || (nodes.is_read_only_by(at, at + 1..end) && nodes.views_inside(at, first..end))
                };
                edges.iter().all(is_edge) && (first..end).all(is_inside)
            }
        }
    }
}
