//! The effect of running a node.

use super::Slots;

/// The effect of running a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: the operation is NONE.
    Nothing,
    /// Nothing: the node is a view of its source.
    View,
    /// The node's own memory, or that of its root when it is a view.
    Result,
    /// The node's own memory and that of these sources.
    Sources(Slots),
    /// Anything: the program's own function runs.
    Anything,
}

impl Effect {
    /// Returns `true` if the node may change the memory of its source at this position.
    pub fn writes_source(self, position: usize) -> bool {
        match self {
            Self::Sources(slots) => slots.has(position),
            Self::Anything => true,
            Self::Nothing | Self::View | Self::Result => false,
        }
    }
}
