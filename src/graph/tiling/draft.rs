//! A graph of which tiles were tiled, with facts about each tensor.

use std::fmt::Write;

use crate::graph::order::Hazards;
use crate::graph::{BufferIndex, Graph, Op, Requests, Sizes, TensorId};
use crate::placement::Bytes;

use super::operations::{NodeTiling, TileKernels, TileKind, tiled};

/// A graph to tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileableGraph {
    /// The graph.
    pub graph: Graph,
    /// The graph in which nodes that the program computes in place own their memory, if that is another one: it is tiled.
    pub detached: Option<Graph>,
    /// By tensor.
    pub known: Vec<Known>,
    /// What computes the tensors that need not stay as they are.
    pub kernels: TileKernels,
}

/// The kind of a tensor of a tiling graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A tensor of the given graph.
    Given,
    /// A tensor of the given graph that tiles compute: it is a view (RESHAPE) of the memory that they write, after them.
    Whole,
    /// Computes a tile of a result.
    Tile,
    /// A tile that was tiled again: a view as [`Role::Whole`].
    TileWhole,
    /// The memory that tiles write (NONE), before them.
    Memory,
    /// A view as [`Role::Whole`], after some of the tiles: a tensor has few sources.
    Join,
    /// A view (VIEW) of a source, for a tile.
    Slice,
    /// A copy (CPY) of a tile into the memory that tiles write, for kernels that write no gaps.
    Copied,
}

impl Role {
    /// Returns `true` for a tensor of the given graph.
    pub fn is_given(self) -> bool {
        matches!(self, Self::Given | Self::Whole)
    }

    /// Returns the role of a tensor once tiles compute it.
    pub fn whole(self) -> Self {
        match self {
            Self::Given => Self::Whole,
            Self::Tile => Self::TileWhole,
            role => role,
        }
    }

    /// Returns its operation; `None` for that of the given tensor.
    pub fn op(self) -> Option<Op> {
        match self {
            Self::Given | Self::Tile => None,
            Self::Whole | Self::TileWhole | Self::Join => Some(Op::Reshape),
            Self::Memory => Some(Op::None),
            Self::Slice => Some(Op::View),
            Self::Copied => Some(Op::Cpy),
        }
    }
}

/// Which tensor of the given graph a tensor of a tiling graph comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The tensor of the given graph; for a slice, the one that is sliced.
    pub tensor: TensorId,
    /// Its current kind.
    pub role: Role,
    /// Which tile it is, as a position in [`Draft::tiles`]; `None` if it is as a whole.
    pub tile: Option<u32>,
}

/// A tile of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileNumber {
    /// Counted from 1.
    pub number: u32,
    /// How many tiles there are.
    pub of: u32,
    /// The tile that was tiled again, as a position in [`Draft::tiles`]; `None` if it was the whole tensor.
    pub within: Option<u32>,
}

/// Bytes of the longest names of tiles that were tiled once.
const LONGEST_TILE: usize = 32;

/// What is known of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Where it comes from.
    pub origin: Origin,
    /// How it can be tiled.
    pub kind: TileKind,
    /// Bytes from its first to its last element.
    pub nbytes: Bytes,
    /// A number that tensors with the same memory share; a root whose memory aliases no other has its own id.
    pub same_memory: TensorId,
    /// Whether it must stay as it is.
    pub kept: bool,
    /// Whether views of it must not be made, as of weights that a backend has repacked.
    pub unsliced: bool,
}

impl Known {
    /// Of a given tensor whose memory aliases no other, and which need not stay as it is.
    pub fn of_given(tensor: TensorId, kind: TileKind, nbytes: Bytes) -> Self {
        let origin = Origin { tensor, role: Role::Given, tile: None };
        Self { origin, kind, nbytes, same_memory: tensor, kept: false, unsliced: false }
    }
}

/// A graph, and facts about its tensors.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The graph. Its ids count the leafs, then the nodes in their order, then the others.
    pub graph: Graph,
    /// By tensor.
    pub known: Vec<Known>,
    /// What computes tiles.
    pub kernels: TileKernels,
    /// The tiles that tensors are of, each after the tile that it is within.
    pub tiles: Vec<TileNumber>,
    /// The requested buffers of the leafs.
    pub leaf_buffers: Vec<BufferIndex>,
    /// The requested buffers of the nodes.
    pub node_buffers: Vec<BufferIndex>,
    /// By given tensor: bytes from its first to its last element.
    pub given_nbytes: Vec<Bytes>,
}

impl Draft {
    /// Starts with a graph of a subject: the given one, or the one that is tiled.
    pub fn of(graph: &Graph, subject: &TileableGraph, requests: Requests<'_>) -> Self {
        Self {
            graph: graph.clone(),
            known: subject.known.clone(),
            kernels: subject.kernels,
            tiles: Vec::new(),
            leaf_buffers: requests.leafs.to_vec(),
            node_buffers: requests.nodes.to_vec(),
            given_nbytes: subject.known.iter().map(|known| known.nbytes).collect(),
        }
    }

    /// Returns how a node is tiled along a dimension of its result; `None` if it is not.
    pub fn tiled(&self, node: TensorId, dimension: usize) -> Option<NodeTiling> {
        tiled(&self.graph, self.kernels, self.known[node as usize].kind, node, dimension)
    }

    /// Returns which nodes must not be swapped.
    pub fn hazards(&self) -> Hazards {
        let same_memory: Vec<TensorId> = self.known.iter().map(|known| known.same_memory).collect();
        Hazards::new(&self.graph, &same_memory)
    }

    /// Returns how the tensor with this id in the draft comes from the given graph.
    pub fn origin(&self, tensor: TensorId) -> Origin {
        self.known[tensor as usize].origin
    }

    /// Returns where each tensor comes from.
    pub fn origins(&self) -> impl Iterator<Item = Origin> {
        self.known.iter().map(|known| known.origin)
    }

    /// Returns the requested buffers.
    pub fn requests(&self) -> Requests<'_> {
        Requests { leafs: &self.leaf_buffers, nodes: &self.node_buffers }
    }

    /// Returns the name of a new tensor, from that of the given one; `None` for a given tensor.
    pub fn name(&self, tensor: TensorId, given: &str) -> Option<String> {
        let origin = self.origin(tensor);
        let what = match (origin.role, origin.tile) {
            (Role::Given | Role::Whole, _) => return None,
            (Role::Tile | Role::TileWhole, _) => "tile ",
            (Role::Slice, _) => "slice ",
            (Role::Copied, _) => "copy of tile ",
            (Role::Memory, None) => "memory",
            (Role::Memory, Some(_)) => "memory of tile ",
            (Role::Join, None) => "tiles",
            (Role::Join, Some(_)) => "tiles of tile ",
        };
        let mut name = String::with_capacity(given.len() + LONGEST_TILE);
        name.extend([given, " (", what]);
        self.add_tiles(origin.tile, &mut name);
        name.push(')');
        Some(name)
    }

    /// Adds a tile to a name, after the tiles that it is within.
    fn add_tiles(&self, tile: Option<u32>, name: &mut String) {
        let Some(tile) = tile else { return };
        let TileNumber { number, of, within } = self.tiles[tile as usize];
        if within.is_some() {
            self.add_tiles(within, name);
            name.push_str(", ");
        }
        write!(name, "{number} of {of}").expect("a string takes all that is written");
    }

    /// Returns the bytes that a buffer requires for a tensor: for a tile, its own bytes and the padding of the whole.
    pub fn alloc_size(&self, sizes: &mut dyn Sizes, tensor: TensorId, buffer: BufferIndex) -> Bytes {
        let origin = self.origin(tensor);
        let size = sizes.alloc_size(origin.tensor, buffer);
        if origin.role.is_given() {
            return size;
        }
        let padding = size.saturating_sub(self.given_nbytes[origin.tensor as usize]);
        self.known[tensor as usize].nbytes.saturating_add(padding)
    }
}
