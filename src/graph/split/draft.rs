//! A graph of which parts were cut, with facts about each tensor.

use std::fmt::Write;

use crate::graph::{BufferIndex, Effect, Graph, Requests, Sizes, TensorId};
use crate::placement::Bytes;

use super::operations::Kind;

/// A graph to cut, and what is known of its tensors.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The graph in which nodes that the program computes in place own their memory, if that is another one: it is cut.
    pub detached: Option<&'a Graph>,
    /// By tensor: what running it can change.
    pub effects: &'a [Effect],
    /// By tensor: a number that tensors with the same memory share; a root whose memory aliases no other has its own id.
    pub same_memory: &'a [TensorId],
    /// By tensor: how it can be cut.
    pub kinds: &'a [Kind],
    /// By tensor: bytes from its first to its last element.
    pub nbytes: &'a [Bytes],
    /// By tensor: whether it must stay as it is.
    pub kept: &'a [bool],
    /// By tensor: whether views of it must not be made, as of weights that a backend has repacked.
    pub unsliced: &'a [bool],
}

/// The kind of a tensor of a cut graph.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The tensor of the given graph; for a slice, the one that is sliced.
    pub tensor: TensorId,
    /// Its current kind.
    pub role: Role,
    /// Which part it is, as a position in [`Draft::parts`]; `None` if it is as a whole.
    pub part: Option<u32>,
}

/// A part of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartNumber {
    /// Counted from 1.
    pub number: u32,
    /// How many parts there are.
    pub of: u32,
    /// The part that was cut again, as a position in [`Draft::parts`]; `None` if it was the whole tensor.
    pub within: Option<u32>,
}

/// Bytes of the longest names of parts that were cut once.
const LONGEST_PART: usize = 32;

/// A graph, and facts about its tensors.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The graph. Its ids count the leafs, then the nodes in their order, then the others.
    pub graph: Graph,
    /// By tensor: its origin.
    pub origins: Vec<Origin>,
    /// The parts that tensors are of, each after the part that it is within.
    pub parts: Vec<PartNumber>,
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
    /// Starts with a graph of a subject: the given one, or the one that is cut.
    pub fn of(graph: &Graph, subject: Subject<'_>, requests: Requests<'_>) -> Self {
        let origin = |tensor| Origin { tensor, role: Role::Given, part: None };
        Self {
            graph: graph.clone(),
            origins: (0..).take(graph.tensors().len()).map(origin).collect(),
            parts: Vec::new(),
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

    /// Returns the name of a new tensor, from that of the given one; `None` for a given tensor.
    pub fn name(&self, tensor: TensorId, given: &str) -> Option<String> {
        let origin = self.origins[tensor as usize];
        let what = match (origin.role, origin.part) {
            (Role::Given | Role::Whole, _) => return None,
            (Role::Part | Role::PartWhole, _) => "part ",
            (Role::Slice, _) => "slice ",
            (Role::Memory, None) => "memory",
            (Role::Memory, Some(_)) => "memory of part ",
            (Role::Join, None) => "parts",
            (Role::Join, Some(_)) => "parts of part ",
        };
        let mut name = String::with_capacity(given.len() + LONGEST_PART);
        name.extend([given, " (", what]);
        self.add_parts(origin.part, &mut name);
        name.push(')');
        Some(name)
    }

    /// Adds a part to a name, after the parts that it is within.
    fn add_parts(&self, part: Option<u32>, name: &mut String) {
        let Some(part) = part else { return };
        let PartNumber { number, of, within } = self.parts[part as usize];
        if within.is_some() {
            self.add_parts(within, name);
            name.push_str(", ");
        }
        write!(name, "{number} of {of}").expect("a string takes all that is written");
    }

    /// Returns the bytes that a buffer requires for a tensor: for a part, its own bytes and the padding of the whole.
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
