//! What was found, and the graph without the copies.

use crate::graph::{Flags, Graph, Layout, Operation, TensorId, View};
use crate::placement::Bytes;

/// Why a copy stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It converts to another type.
    Type,
    /// No node of the graph computes what is copied into memory of its own: it is an input, a weight, written in place of
    /// something else, or flagged.
    Producer,
    /// Somebody else reads what is copied.
    Readers,
    /// It copies a part of what was computed, or some of it several times.
    Part,
    /// The operation is not known to write such a layout.
    Layout,
    /// Somebody uses the memory between the producer and the copy, or it has none so early.
    Order,
    /// What the producer reads lies where it would write.
    Overlap,
    /// Nothing is known of the memory, or an allocator has given it already.
    Memory,
    /// The producer would have to run on another device.
    Device,
    /// The slot is taken that would name where the result is wanted.
    Slot,
    /// More bytes would be alive at the worst step.
    Peak,
}

impl Reason {
    /// How many there are.
    pub const COUNT: usize = Self::Peak as usize + 1;
}

/// What a tensor becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// It stays what it is.
    Same,
    /// A look at memory that others write: RESHAPE.
    Look,
    /// Memory that others write, and nothing that is computed: NONE, without sources.
    Place,
}

/// What changes in a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The tensor.
    pub tensor: TensorId,
    /// What it is a view of from now on.
    pub view: Option<View>,
    /// Its strides in bytes.
    pub nb: [u64; 4],
    /// What it becomes.
    pub becomes: Becomes,
    /// The tensor to be named as the place where its result is wanted.
    pub wanted: Option<TensorId>,
    /// Must its memory last to the end, because the copy's had to?
    pub is_output: bool,
}

/// What the search has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The copies that go, from the last to the first.
    pub removed: Vec<TensorId>,
    /// Bytes that are not copied any more.
    pub bytes: Bytes,
    /// How many stay, by [`Reason`].
    pub left: [u32; Reason::COUNT],
    /// What changes, each tensor once.
    pub changes: Vec<Change>,
}

impl Found {
    /// How many copies stay for this reason.
    pub fn left_for(&self, reason: Reason) -> u32 {
        self.left[reason as usize]
    }

    /// The graph with all changes.
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
            let is_place = change.is_some_and(|change| change.becomes == Becomes::Place);
            let sources = if is_place { &[] } else { graph.sources(id) };
            let wanted = change.and_then(|change| change.wanted);
            changed.push_sources(sources.iter().copied().chain(wanted));
        }
        changed.list_leafs(graph.leafs().iter().copied());
        changed.list_nodes(graph.nodes().iter().copied());
        changed
    }
}

impl Becomes {
    fn operation(self, was: Operation) -> Operation {
        match self {
            Self::Same => was,
            Self::Look => Operation::Other,
            Self::Place => Operation::Marker,
        }
    }
}
