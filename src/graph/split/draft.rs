//! A graph of which parts were cut, with what is known of each tensor.

use std::fmt::Write;

use crate::graph::{BufferIndex, Effect, Graph, Requests, Sizes, TensorId};
use crate::placement::Bytes;

use super::operations::Kind;
use super::pass::Subject;

/// What a tensor of a cut graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A tensor of the given graph.
    Given,
    /// A tensor of the given graph that parts compute: it is a view (RESHAPE) of the memory that they write, after them.
    Whole,
    /// Computes a part of a result.
    Part,
    /// A part that was cut again: a view as [`Role::Whole`].
    PartWhole,
    /// The memory that parts write (NONE), before them.
    Memory,
    /// A view as [`Role::Whole`], after some of the parts: a tensor has few sources.
    Join,
    /// A view (VIEW) of a source, for a part.
    Slice,
}

impl Role {
    /// Returns `true` for a tensor of the given graph.
    pub fn is_given(self) -> bool {
        matches!(self, Self::Given | Self::Whole)
    }

    /// Returns ggml's name of the operation; `None` for that of the given tensor.
    pub fn operation(self) -> Option<&'static str> {
        match self {
            Self::Given | Self::Part => None,
            Self::Whole | Self::PartWhole | Self::Join => Some("RESHAPE"),
            Self::Memory => Some("NONE"),
            Self::Slice => Some("VIEW"),
        }
    }
}

/// Which tensor of the given graph a tensor of a cut graph comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The tensor of the given graph; of a slice, the one that is sliced.
    pub tensor: TensorId,
    /// What it is now.
    pub role: Role,
    /// Which part it is, and of how many, from the first cut to the last; counted from 1.
    pub parts: Vec<[u32; 2]>,
}

impl Origin {
    /// Returns the name of a new tensor, from that of the given one; `None` for a given tensor.
    pub fn name(&self, given: &str) -> Option<String> {
        let mut parts = String::new();
        for (number, [part, of]) in self.parts.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            let _ = write!(parts, "{comma}{part} of {of}");
        }
        let what = match self.role {
            Role::Given | Role::Whole => return None,
            Role::Part | Role::PartWhole => format!("part {parts}"),
            Role::Slice => format!("slice {parts}"),
            Role::Memory if parts.is_empty() => "memory".to_owned(),
            Role::Memory => format!("memory of part {parts}"),
            Role::Join if parts.is_empty() => "parts".to_owned(),
            Role::Join => format!("parts of part {parts}"),
        };
        Some(format!("{given} ({what})"))
    }
}

/// A graph, and what is known of its tensors.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The graph. Its ids count the leafs, then the nodes in their order, then the others.
    pub graph: Graph,
    /// By tensor: what it comes from.
    pub origins: Vec<Origin>,
    /// By tensor: how it can be cut.
    pub kinds: Vec<Kind>,
    /// By tensor: what running it can change.
    pub effects: Vec<Effect>,
    /// By tensor: bytes from its first to its last element.
    pub nbytes: Vec<Bytes>,
    /// By tensor: a number that tensors with the same memory share.
    pub same_memory: Vec<TensorId>,
    /// By tensor: whether it must stay as it is.
    pub kept: Vec<bool>,
    /// By tensor: whether views of it must not be made.
    pub unsliced: Vec<bool>,
    /// The requested buffers of the leafs.
    pub leaf_buffers: Vec<BufferIndex>,
    /// The requested buffers of the nodes.
    pub node_buffers: Vec<BufferIndex>,
    /// By given tensor: bytes from its first to its last element.
    pub given_nbytes: Vec<Bytes>,
}

impl Draft {
    /// Starts with the given graph.
    pub fn of(subject: Subject<'_>, requests: Requests<'_>) -> Self {
        let origin = |tensor| Origin { tensor, role: Role::Given, parts: Vec::new() };
        Self {
            graph: subject.graph.clone(),
            origins: (0..).take(subject.graph.tensors().len()).map(origin).collect(),
            kinds: subject.kinds.to_vec(),
            effects: subject.effects.to_vec(),
            nbytes: subject.nbytes.to_vec(),
            same_memory: subject.same_memory.to_vec(),
            kept: subject.kept.to_vec(),
            unsliced: subject.unsliced.to_vec(),
            leaf_buffers: requests.leafs.to_vec(),
            node_buffers: requests.nodes.to_vec(),
            given_nbytes: subject.nbytes.to_vec(),
        }
    }

    /// Returns the requested buffers.
    pub fn requests(&self) -> Requests<'_> {
        Requests { leafs: &self.leaf_buffers, nodes: &self.node_buffers }
    }

    /// Returns the bytes that a buffer requires for a tensor: of a part, its own bytes and the padding of the whole.
    pub fn alloc_size(&self, sizes: &mut dyn Sizes, tensor: TensorId, buffer: BufferIndex) -> Bytes {
        let origin = &self.origins[tensor as usize];
        let size = sizes.alloc_size(origin.tensor, buffer);
        if origin.role.is_given() {
            return size;
        }
        let padding = size.saturating_sub(self.given_nbytes[origin.tensor as usize]);
        self.nbytes[tensor as usize].saturating_add(padding)
    }
}
