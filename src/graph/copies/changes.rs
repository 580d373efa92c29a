//! The changes that remove copies from a graph, and why other copies stay.

use crate::graph::{Flags, Graph, Layout, Operation, TensorId, View};
use crate::placement::Bytes;

/// Why a copy stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It converts to another type.
    Type,
    /// No node of the graph computes the copied tensor into its own memory: it is an input, a weight, written in place
    /// of something else, flagged, or retained.
    Producer,
    /// Another node reads the copied tensor.
    Readers,
    /// It copies a part of what was computed, or some of it several times.
    Part,
    /// The operation is not known to write such a layout.
    Layout,
    /// Another node accesses the memory between the producer and the copy, or it is not allocated so early.
    Order,
    /// The producer reads memory where it would write.
    Overlap,
    /// Nothing is known of the memory, or an allocator has planned it already.
    Memory,
    /// The producer would have to run on another device.
    Device,
    /// The source slot for the destination of the result is taken.
    Slot,
    /// The peak would rise.
    Peak,
}

impl Reason {
    /// The number of reasons.
    pub const COUNT: usize = Self::Peak as usize + 1;
}

/// The new state of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// It stays as it is.
    Same,
    /// A view of memory that other nodes write: RESHAPE.
    View,
    /// Memory that other nodes write, which computes nothing: NONE, without sources.
    Placeholder,
}

/// The changes in a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorChange {
    /// The tensor.
    pub tensor: TensorId,
    /// Its new view.
    pub view: Option<View>,
    /// Its new strides in bytes.
    pub nb: [u64; 4],
    /// Its new state.
    pub becomes: Becomes,
    /// The tensor in whose memory its result goes, to become a source.
    pub destination: Option<TensorId>,
    /// True if its memory must last to the end, as that of the copy had to.
    pub is_output: bool,
}

/// The removed copies, and what changes in the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The removed copies, from the last to the first.
    pub removed: Vec<TensorId>,
    /// Bytes that are no longer copied.
    pub bytes: Bytes,
    /// How many stay, by [`Reason`].
    pub left: [u32; Reason::COUNT],
    /// The changed tensors, each once.
    pub changes: Vec<TensorChange>,
}

impl Found {
    /// Returns how many copies stay for this reason.
    pub fn left_for(&self, reason: Reason) -> u32 {
        self.left[reason as usize]
    }

    /// Returns `graph` with all changes.
    #[must_use]
    pub fn applied_to(&self, graph: &Graph) -> Graph {
        let mut change_of = vec![None; graph.tensors().len()];
        self.changes.iter().for_each(|change| change_of[change.tensor as usize] = Some(change));
        let mut changed = Graph::with_capacity(graph.tensors().len());
        for (id, change) in (0..).zip(&change_of) {
            let (mut tensor, mut layout) = (graph.tensor(id).clone(), *graph.layout(id));
            if let Some(change) = change {
                tensor.view = change.view;
                tensor.operation = change.becomes.operation(tensor.operation);
                tensor.flags.0 |= if change.is_output { Flags::OUTPUT.0 } else { 0 };
                layout = Layout { nb: change.nb, ..layout };
            }
            changed.add(tensor, layout.by_ref());
            let is_placeholder = change.is_some_and(|change| change.becomes == Becomes::Placeholder);
            let sources = if is_placeholder { &[] } else { graph.sources(id) };
            let destination = change.and_then(|change| change.destination);
            changed.push_sources(sources.iter().copied().chain(destination));
        }
        changed.list_leafs(graph.leafs().iter().copied());
        changed.list_nodes(graph.nodes().iter().copied());
        changed.set_retention(graph.retention().clone());
        changed
    }
}

impl Becomes {
    fn operation(self, was: Operation) -> Operation {
        match self {
            Self::Same => was,
            Self::View => Operation::Other,
            Self::Placeholder => Operation::Marker,
        }
    }
}
