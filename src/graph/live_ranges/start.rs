//! What is known before any tensor has memory.

use crate::graph::{BufferIndex, Flags, Graph, Requests, Tensor, TensorId};
use crate::placement::Step;

use super::inactive::Inactive;
use super::{any_order, in_order};

/// Which tensors have memory from the start, and when memory ends.
pub struct Start {
    /// The leafs that are to get memory, and where.
    pub leafs: Vec<(TensorId, BufferIndex)>,
    /// The inputs that are no leafs, and where they are to get memory.
    pub inputs: Vec<(TensorId, BufferIndex)>,
    /// When memory ends.
    pub ends: Ends,
    /// The steps, in their order, that name a source which nothing has given memory to before.
    pub names_unseen: Vec<Step>,
    /// The inactive nodes.
    pub inactive: Inactive,
}

impl Start {
    /// Reads what `graph` says; `may_be_inactive` answers whether the rules of a buffer know inactive nodes.
    pub fn of(graph: &Graph, requests: Requests<'_>, may_be_inactive: impl Fn(BufferIndex) -> bool) -> Self {
        let candidates = Inactive::candidates(graph, |step| may_be_inactive(requests.nodes[step as usize]));
        in_order::start(graph, requests, &candidates).unwrap_or_else(|| any_order::start(graph, requests, &candidates))
    }
}

/// A number for each step, one more than that of the step before. A step that reads has none of the following.
pub type Moment = u32;

/// The moment at which ends what nobody reads.
pub const NOBODY: Moment = 0;

/// The moment at which ends what must be kept.
pub const NEVER: Moment = Moment::MAX;

/// Stands for an inactive node, which has no memory.
pub const INACTIVE: Moment = NEVER - 1;

/// When memory is read for the last time.
pub struct Ends {
    /// The moment of the first step, which is not 0.
    pub first: Moment,
    /// By tensor. For what is no view, the moment of the last step that reads it or a view of it: its memory may end then.
    /// For a view of memory to be planned, the moment of the last step that reads the view: none of that memory ends but at
    /// such a moment. For what has memory already, any moment.
    pub moments: Vec<Moment>,
}

impl Ends {
    /// Does nobody read this memory? Nor may somebody after the graph.
    pub fn is_unread(&self, root: TensorId) -> bool {
        self.moments[root as usize] == NOBODY
    }

    /// Is it an inactive node?
    #[inline]
    pub fn is_inactive(&self, tensor: TensorId) -> bool {
        self.moments[tensor as usize] == INACTIVE
    }

    /// The moment of a step.
    #[inline]
    pub fn moment(&self, step: Step) -> Moment {
        self.first + step
    }

    /// The step that is the last to read this memory. Where there is none, a number that no step of a graph reaches.
    #[inline]
    pub fn last_read(&self, root: TensorId) -> Step {
        // Both [`NOBODY`] and [`NEVER`] are farther from the first moment than any other is.
        self.moments[root as usize].wrapping_sub(self.first)
    }

    /// Lets the root of a view last as long as the view, when is known who reads that. A view that nobody reads may be read
    /// after the graph.
    #[inline]
    pub fn add_view(&mut self, [view, root]: [TensorId; 2], view_tensor: &Tensor, root_tensor: &Tensor) {
        let last_read = &mut self.moments[view as usize];
        if !root_tensor.is_owned() {
            *last_read = NOBODY;
            return;
        }
        let is_kept = *last_read == NOBODY || view_tensor.flags.has(Flags::OUTPUT);
        let end = if is_kept { NEVER } else { *last_read };
        let root = &mut self.moments[root as usize];
        *root = end.max(*root);
    }
}
