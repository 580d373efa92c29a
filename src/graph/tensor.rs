//! Tensors and graphs.

use crate::placement::{Bytes, Step};

use super::Operation;
use super::layout::{Layout, LayoutId, LayoutRef, Layouts, UNSAID};

/// Dense index of a tensor in its [`Graph`].
pub type TensorId = u32;

/// Dense index of a buffer: one buffer type, however many buffer ids name it.
pub type BufferIndex = u32;

/// ggml's tensor flags, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// Memory from the start of the graph, disjoint from every other input.
    pub const INPUT: Self = Self(1);
    /// Never freed, never overwritten.
    pub const OUTPUT: Self = Self(2);
    /// To be computed. Where a version of ggml knows this flag, backends pass over nodes that do not have it.
    pub const COMPUTE: Self = Self(16);

    /// Is the one flag in `flag` set?
    pub fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }
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
}

/// A computation graph: tensors, who reads whom, and the order of execution.
#[derive(Clone, Debug)]
pub struct Graph {
    tensors: Vec<Tensor>,
    /// The distinct layouts.
    layouts: Layouts,
    /// By tensor.
    layout_of: Vec<LayoutId>,
    /// All sources of the first tensor, then those of the next.
    sources: Vec<TensorId>,
    /// By tensor, where its sources begin, which is where those of the one before end. Tensors without sources may be left
    /// out at the end.
    source_bounds: Vec<u32>,
    /// By tensor, the one with the largest id that reads it; 0 where nobody does, and perhaps missing there at the end.
    last_readers: Vec<TensorId>,
    /// Does nobody read a tensor with a larger id?
    reads_back: bool,
    /// Who reads itself.
    self_readers: Vec<TensorId>,
    leafs: Vec<TensorId>,
    nodes: Vec<TensorId>,
}

/// The buffers that the caller wants: by leaf and by node. A source that is in neither list gets the buffer of its first
/// reader.
#[derive(Clone, Copy, Debug)]
pub struct Requests<'a> {
    /// By position in [`Graph::leafs`].
    pub leafs: &'a [BufferIndex],
    /// By position in [`Graph::nodes`].
    pub nodes: &'a [BufferIndex],
}

impl Graph {
    /// An empty graph with room for `tensors`.
    pub fn with_capacity(tensors: usize) -> Self {
        let mut source_bounds = Vec::with_capacity(tensors + 1);
        source_bounds.push(0);
        Self {
            tensors: Vec::with_capacity(tensors),
            layouts: Layouts::default(),
            layout_of: Vec::with_capacity(tensors),
            sources: Vec::with_capacity(2 * tensors),
            source_bounds,
            last_readers: vec![0; tensors],
            reads_back: true,
            self_readers: Vec::new(),
            leafs: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// Adds a tensor.
    #[inline]
    pub fn add(&mut self, tensor: Tensor, layout: LayoutRef<'_>) -> TensorId {
        let id = number(self.tensors.len());
        self.tensors.push(tensor);
        self.layout_of.push(self.layouts.id(layout));
        id
    }

    /// Adds tensors, whose layouts are to be said before they are asked for.
    #[inline]
    pub fn extend(&mut self, tensors: impl Iterator<Item = Tensor>) {
        self.tensors.extend(tensors);
    }

    /// Takes back the latest of them, as long as nothing else was said about those.
    pub fn truncate(&mut self, tensors: usize) {
        self.tensors.truncate(tensors);
    }

    /// Says the layouts of the next tensors that were added without.
    #[inline]
    pub fn extend_layouts<'l, T>(&mut self, tensors: &[T], layout: impl Fn(&T) -> LayoutRef<'l>) {
        self.layouts.add_ids(tensors, layout, &mut self.layout_of);
    }

    /// Leaves out the layouts of the next tensors that were added without: nobody asks for them before they are said.
    #[inline]
    pub fn skip_layouts(&mut self, tensors: usize) {
        self.layout_of.resize(self.layout_of.len() + tensors, UNSAID);
    }

    /// Is the layout of a tensor said?
    pub fn has_layout(&self, tensor: TensorId) -> bool {
        self.layout_of[tensor as usize] != UNSAID
    }

    /// Says the layout of a tensor where it was left out.
    pub fn say_layout(&mut self, tensor: TensorId, layout: LayoutRef<'_>) {
        self.layout_of[tensor as usize] = self.layouts.id(layout);
    }

    /// Says whom a tensor reads, in the order of its slots; a source that is named twice is read twice. The first call is about
    /// the first tensor, the next about the next.
    pub fn push_sources(&mut self, sources: impl Iterator<Item = TensorId>) {
        let (reader, first) = (number(self.source_bounds.len() - 1), self.sources.len());
        sources.for_each(|source| self.push_source(source, reader));
        self.end_sources(&[number(self.sources.len() - first)]);
    }

    /// The same for the next tensors: the sources of the first, then those of the next, with who reads each. Goes as far as `id`
    /// knows sources that come before their readers, and tells how far that is; nothing else changes meanwhile, which is why
    /// it is quick. The source there goes to [`Graph::push_source`], and all that is left here again.
    #[inline]
    pub fn extend_sources<S: Copy>(
        &mut self,
        sources: &[S],
        readers: &[TensorId],
        id: impl Fn(S) -> Option<TensorId>,
    ) -> usize {
        let before = self.sources.len();
        self.sources.resize(before + sources.len(), 0);
        let mut count = 0;
        for ((&source, &reader), place) in sources.iter().zip(readers).zip(&mut self.sources[before..]) {
            let Some(source) = id(source).filter(|source| *source < reader) else { break };
            let Some(last) = self.last_readers.get_mut(source as usize) else { break };
            (*last, *place) = (reader, source);
            count += 1;
        }
        self.sources.truncate(before + count);
        count
    }

    /// One source of the next tensors, whichever it is.
    pub fn push_source(&mut self, source: TensorId, reader: TensorId) {
        self.sources.push(source);
        let needed = source as usize + 1;
        if self.last_readers.len() < needed {
            self.last_readers.resize(needed, 0);
        }
        self.last_readers[source as usize] = reader;
        if source >= reader {
            self.reads_back &= source == reader && reader > 0;
            self.self_readers.push(reader);
        }
    }

    /// Ends the sources of the next tensors: by tensor, how many of those that were said are of itself and the ones before.
    #[inline]
    pub fn end_sources(&mut self, ends: &[u32]) {
        let before = number(self.sources.len()) - ends.last().copied().unwrap_or(0);
        self.source_bounds.extend(ends.iter().map(|end| before + end));
    }

    /// Says of the next tensors that they read nobody.
    #[inline]
    pub fn push_no_sources(&mut self, tensors: usize) {
        let end = number(self.sources.len());
        self.source_bounds.resize(self.source_bounds.len() + tensors, end);
    }

    /// Says what `tensor` is a view of.
    pub fn set_view(&mut self, tensor: TensorId, view: View) {
        self.tensors[tensor as usize].view = Some(view);
    }

    /// Says whether `tensor` has memory that is never planned.
    pub fn set_external(&mut self, tensor: TensorId, external: bool) {
        self.tensors[tensor as usize].external = external;
    }

    /// Appends to the leafs: constants and inputs, with memory from the start.
    pub fn list_leafs(&mut self, tensors: impl IntoIterator<Item = TensorId>) {
        self.leafs.extend(tensors);
    }

    /// Appends to the nodes, which are executed in this order.
    pub fn list_nodes(&mut self, tensors: impl IntoIterator<Item = TensorId>) {
        self.nodes.extend(tensors);
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
        self.layouts.get(self.layout_of[id as usize])
    }

    /// The layout with this number, see [`Graph::layout_id`].
    pub fn layout_of_id(&self, id: LayoutId) -> &Layout {
        self.layouts.get(id)
    }

    /// The layout of a tensor as a number. Layouts are numbered in the order in which they were added first.
    pub fn layout_id(&self, id: TensorId) -> LayoutId {
        self.layout_of[id as usize]
    }

    /// The same of all tensors.
    pub fn layout_ids(&self) -> &[LayoutId] {
        &self.layout_of
    }

    /// How many different layouts there are.
    pub fn distinct_layouts(&self) -> usize {
        self.layouts.len()
    }

    /// Have two tensors the same type, extents and strides?
    pub fn look_alike(&self, one: TensorId, other: TensorId) -> bool {
        self.layout_of[one as usize] == self.layout_of[other as usize]
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
        match self.source_bounds.get(id as usize..id as usize + 2) {
            Some(&[start, end]) => &self.sources[start as usize..end as usize],
            _ => &[],
        }
    }

    /// By tensor, the one with the largest id that reads it; 0 where nobody does, and perhaps missing there at the end.
    /// `None` when somebody reads a tensor with a larger id.
    pub fn last_readers(&self) -> Option<&[TensorId]> {
        self.reads_back.then_some(&self.last_readers)
    }

    /// The tensors that read themselves, where nobody reads a tensor with a larger id.
    pub fn self_readers(&self) -> &[TensorId] {
        &self.self_readers
    }

    /// The tensor that owns the memory of `id`: itself, or what it is a view of.
    pub fn root(&self, id: TensorId) -> TensorId {
        self.tensor(id).view.map_or(id, |view| view.root)
    }

    /// Does a node have [`Flags::COMPUTE`]? Backends then skip those that do not.
    pub fn has_flag_compute(&self) -> bool {
        // The last node is nearly always one that is computed.
        self.nodes.iter().rev().any(|&node| self.tensor(node).flags.has(Flags::COMPUTE))
    }

    /// How many steps the graph takes; a graph without nodes takes one.
    pub fn steps(&self) -> u32 {
        u32::try_from(self.nodes.len().max(1)).expect("fewer than 2^32 nodes")
    }
}

/// As the numbers that a graph counts in.
fn number(count: usize) -> u32 {
    u32::try_from(count).expect("fewer than 2^32 tensors, and as many sources")
}

impl Default for Tensor {
    fn default() -> Self {
        Self::new()
    }
}

impl Tensor {
    /// A tensor without sources, views or flags, which computes nothing.
    pub fn new() -> Self {
        Self { flags: Flags::default(), view: None, operation: Operation::Marker, external: false }
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
