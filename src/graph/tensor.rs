//! Tensors and graphs.

use crate::placement::{Bytes, Step};

use super::Operation;

/// Dense index of a tensor in its [`Graph`].
pub type TensorId = u32;

/// Dense index of a pool: one buffer type, however many buffer ids name it.
pub type PoolId = u32;

/// ggml's tensor flags, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// Memory from the start of the graph, disjoint from every other input.
    pub const INPUT: Self = Self(1);
    /// Never freed, never overwritten.
    pub const OUTPUT: Self = Self(2);

    /// Is the one flag in `flag` set?
    pub fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }
}

/// Element type, extents and strides: what two tensors must share for one to be computed in the other's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// A number for the element type; equal types have equal numbers.
    pub element: u32,
    /// Extents in elements, fastest first.
    pub ne: [i64; 4],
    /// Strides in bytes.
    pub nb: [u64; 4],
}

/// A tensor that lies in the memory of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The owner of the memory; never a view itself.
    pub root: TensorId,
    /// Bytes from the start of the root.
    pub offset: Bytes,
}

/// What the planner has to know of one tensor.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Input, output and so on.
    pub flags: Flags,
    /// Set for a view.
    pub view: Option<View>,
    /// How it is computed.
    pub operation: Operation,
    /// Has memory already: never planned.
    pub external: bool,
    sources: (u32, u32),
}

/// A computation graph: tensors, who reads whom, and the order of execution.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    tensors: Vec<Tensor>,
    /// By tensor, apart from the rest, since few are ever compared.
    layouts: Vec<Layout>,
    sources: Vec<TensorId>,
    leafs: Vec<TensorId>,
    nodes: Vec<TensorId>,
}

/// The pools that the caller wants: by leaf and by node. A source that is in neither list gets the pool of its first
/// reader.
#[derive(Clone, Copy, Debug)]
pub struct Requests<'a> {
    /// By position in [`Graph::leafs`].
    pub leafs: &'a [PoolId],
    /// By position in [`Graph::nodes`].
    pub nodes: &'a [PoolId],
}

impl Graph {
    /// An empty graph with room for `tensors`.
    pub fn with_capacity(tensors: usize) -> Self {
        Self {
            tensors: Vec::with_capacity(tensors),
            layouts: Vec::with_capacity(tensors),
            sources: Vec::with_capacity(2 * tensors),
            leafs: Vec::new(),
            nodes: Vec::with_capacity(tensors),
        }
    }

    /// Adds a tensor without sources.
    pub fn add(&mut self, tensor: Tensor, layout: Layout) -> TensorId {
        let id = TensorId::try_from(self.tensors.len()).expect("fewer than 2^32 tensors");
        self.tensors.push(tensor);
        self.layouts.push(layout);
        id
    }

    /// Says whom `tensor` reads, in the order of its slots; a source that is named twice is read twice.
    pub fn set_sources(&mut self, tensor: TensorId, sources: impl IntoIterator<Item = TensorId>) {
        let start = u32::try_from(self.sources.len()).expect("fewer than 2^32 sources");
        self.sources.extend(sources);
        let end = u32::try_from(self.sources.len()).expect("fewer than 2^32 sources");
        self.tensors[tensor as usize].sources = (start, end);
    }

    /// Says what `tensor` is a view of.
    pub fn set_view(&mut self, tensor: TensorId, view: View) {
        self.tensors[tensor as usize].view = Some(view);
    }

    /// Appends to the leafs: constants and inputs, with memory from the start.
    pub fn push_leaf(&mut self, tensor: TensorId) {
        self.leafs.push(tensor);
    }

    /// Appends to the nodes, which are executed in this order.
    pub fn push_node(&mut self, tensor: TensorId) {
        self.nodes.push(tensor);
    }

    /// The same graph with its nodes in another order, given as positions in this one.
    #[must_use]
    pub fn in_order(&self, order: &[Step]) -> Self {
        let nodes = order.iter().map(|&step| self.nodes[step as usize]).collect();
        Self { nodes, ..self.clone() }
    }

    /// All tensors: leafs, nodes, and those that are only referred to.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// One tensor.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id as usize]
    }

    /// Type, extents and strides of a tensor.
    pub fn layout(&self, id: TensorId) -> &Layout {
        &self.layouts[id as usize]
    }

    /// The leafs in the order of the graph.
    pub fn leafs(&self) -> &[TensorId] {
        &self.leafs
    }

    /// The nodes in the order of execution.
    pub fn nodes(&self) -> &[TensorId] {
        &self.nodes
    }

    /// Whom a tensor reads.
    pub fn sources(&self, id: TensorId) -> &[TensorId] {
        let (start, end) = self.tensor(id).sources;
        &self.sources[start as usize..end as usize]
    }

    /// The tensor that owns the memory of `id`: itself, or what it is a view of.
    pub fn root(&self, id: TensorId) -> TensorId {
        self.tensor(id).view.map_or(id, |view| view.root)
    }

    /// How many steps the graph takes; a graph without nodes takes one.
    pub fn steps(&self) -> u32 {
        u32::try_from(self.nodes.len().max(1)).expect("fewer than 2^32 nodes")
    }
}

impl Default for Tensor {
    fn default() -> Self {
        Self::new()
    }
}

impl Tensor {
    /// A tensor without sources, views or flags, which computes nothing.
    pub fn new() -> Self {
        Self { flags: Flags::default(), view: None, operation: Operation::Marker, external: false, sources: (0, 0) }
    }

    /// Does it compute nothing?
    pub fn is_marker(&self) -> bool {
        self.operation == Operation::Marker
    }

    /// Is memory to be planned for it?
    pub fn is_owned(&self) -> bool {
        self.view.is_none() && !self.external
    }
}
