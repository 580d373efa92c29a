//! The new tensors of one tile of a region.

use std::ops::Range;

use crate::graph::lists::Lists;
use crate::graph::{BufferIndex, Effect, Flags, Layout, Operation, Tensor, TensorId, View};
use crate::placement::Bytes;

use super::draft::{Draft, Origin, Role, TileNumber};
use super::operations::{Kind, MOST_SOURCES, Need, tiled};
use super::region::{Grid, Member, Region};
use super::slices::{packed_tile, slice, span};
use super::views::view_of_tile;

/// A tensor that a tiling adds. Its ids count on from those of the draft.
#[derive(Debug)]
pub struct NewTensor {
    pub tensor: Tensor,
    pub layout: Layout,
    pub origin: Origin,
    pub kind: Kind,
    pub effect: Effect,
    pub nbytes: Bytes,
    pub buffer: BufferIndex,
    /// The tensor of the draft that it is a tile or a slice of.
    pub of: TensorId,
}

/// The new tensors of a draft, in the order of execution.
pub struct NewTensors<'a> {
    draft: &'a Draft,
    pub list: Vec<NewTensor>,
    /// By new tensor.
    pub sources: Lists<TensorId>,
    /// The tiles of the draft, then the new ones.
    pub tiles: Vec<TileNumber>,
    /// By tensor of the draft: for an output with its own memory, the memory that its tiles write.
    memories: Vec<Option<TensorId>>,
}

/// One tile of a region.
#[derive(Clone, Debug)]
pub struct Tile<'r> {
    pub region: &'r Region,
    pub grid: Grid,
    pub units: Range<i64>,
    /// Which tile it is, counted from 1, and of how many.
    pub number: [u32; 2],
}

/// The tensors added for a tile so far.
#[derive(Default)]
pub struct Added {
    /// By member of the region: its tile.
    members: Vec<TensorId>,
    slices: Vec<(SliceOf, TensorId)>,
    /// By tile that was tiled again, or `None`: its tile, as a position in [`NewTensors::tiles`].
    tiles: Vec<(Option<u32>, u32)>,
}

impl Added {
    fn clear(&mut self) {
        self.members.clear();
        self.slices.clear();
        self.tiles.clear();
    }

    /// Returns the tile of a tensor of the draft; `None` if it is not a member, or not added yet.
    pub fn tile_of(&self, region: &Region, tensor: TensorId) -> Option<TensorId> {
        let position = region.members.iter().position(|member| member.tensor == tensor)?;
        self.members.get(position).copied()
    }
}

/// A range of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SliceOf {
    source: TensorId,
    dimension: usize,
    range: Range<i64>,
}

impl<'a> NewTensors<'a> {
    pub fn of(draft: &'a Draft) -> Self {
        let tensors = draft.graph.tensors().len();
        Self {
            draft,
            list: Vec::with_capacity(tensors),
            sources: Lists::with_capacity(tensors),
            tiles: draft.tiles.clone(),
            memories: vec![None; tensors],
        }
    }

    /// Returns the memory that the tiles of an output write; `None` if it is not new, or the tensor is no such output.
    pub fn memory(&self, output: TensorId) -> Option<TensorId> {
        self.memories.get(output as usize).copied().flatten()
    }

    /// Adds the memory of an output that has its own.
    pub fn add_memory(&mut self, output: TensorId, buffer: BufferIndex) {
        let mut new = self.like(output, Role::Memory, buffer);
        new.tensor.operation = Operation::Marker;
        (new.kind, new.effect) = (Kind::Other, Effect::Nothing);
        self.memories[output as usize] = Some(self.push(new, &[]));
    }

    /// Adds views of an output after some of its tiles, so that each has few sources. Returns the sources of the output
    /// itself: the last of these views or the memory, and the other tiles.
    pub fn add_joins(&mut self, output: TensorId, tiles: &[TensorId], buffer: BufferIndex) -> Vec<TensorId> {
        let memory = self.view_of(self.memory(output).unwrap_or(output));
        let mut sources = vec![memory.root];
        for (position, &tile) in tiles.iter().enumerate() {
            sources.push(tile);
            if sources.len() == MOST_SOURCES && position + 1 < tiles.len() {
                let mut new = self.like(output, Role::Join, buffer);
                new.tensor.view = Some(memory);
                new.tensor.operation = Operation::View;
                (new.kind, new.effect) = (Kind::Other, Effect::View);
                let join = self.push(new, &sources);
                sources.clear();
                sources.push(join);
            }
        }
        sources
    }

    /// Returns a new tensor with the layout of a member.
    fn like(&self, member: TensorId, role: Role, buffer: BufferIndex) -> NewTensor {
        let draft = self.draft;
        let mut tensor = Tensor::new();
        tensor.flags = Flags(draft.graph.tensor(member).flags.0 & Flags::COMPUTE.0);
        NewTensor {
            tensor,
            layout: *draft.graph.layout(member),
            origin: Origin { role, ..draft.origins[member as usize] },
            kind: draft.kinds[member as usize],
            effect: draft.effects[member as usize],
            nbytes: draft.nbytes[member as usize],
            buffer,
            of: member,
        }
    }

    /// Adds the tensors of a tile to the list and to `added`; `buffer` has the requested buffer of each member. `None` if one
    /// cannot be made.
    pub fn add_tile(
        &mut self,
        tile: &Tile<'_>,
        buffer: impl Fn(TensorId) -> BufferIndex,
        added: &mut Added,
    ) -> Option<()> {
        added.clear();
        for member in &tile.region.members {
            let buffer = buffer(member.tensor);
            let id = if self.draft.kinds[member.tensor as usize].is_view() {
                self.add_view(tile, member, added, buffer)?
            } else {
                self.add_computed(tile, member, added, buffer)?
            };
            added.members.push(id);
        }
        Some(())
    }

    fn push(&mut self, new: NewTensor, sources: &[TensorId]) -> TensorId {
        let id = self.next_id();
        self.list.push(new);
        self.sources.push(sources);
        id
    }

    fn next_id(&self) -> TensorId {
        let id = self.draft.graph.tensors().len() + self.list.len();
        TensorId::try_from(id).expect("fewer than 2^32 tensors")
    }

    fn layout(&self, id: TensorId) -> &Layout {
        match (id as usize).checked_sub(self.draft.graph.tensors().len()) {
            Some(position) => &self.list[position].layout,
            None => self.draft.graph.layout(id),
        }
    }

    fn view_of(&self, id: TensorId) -> View {
        let view = match (id as usize).checked_sub(self.draft.graph.tensors().len()) {
            Some(position) => self.list[position].tensor.view,
            None => self.draft.graph.tensor(id).view,
        };
        view.unwrap_or(View { root: id, offset: 0 })
    }

    /// Adds the tile of a view of an internal tensor.
    fn add_view(
        &mut self,
        tile: &Tile<'_>,
        member: &Member,
        added: &mut Added,
        buffer: BufferIndex,
    ) -> Option<TensorId> {
        let graph = &self.draft.graph;
        let parent = *graph.sources(member.tensor).first()?;
        let source = added.tile_of(tile.region, parent)?;
        let range = tile.grid.elements(&tile.units, member.extent);
        let within = |id: TensorId| graph.tensor(id).view.map_or(0, |view| view.offset);
        let offset = within(member.tensor).checked_sub(within(parent))?;
        let layouts = [graph.layout(parent), self.layout(source)];
        let given = graph.layout(member.tensor);
        let (layout, offset) = view_of_tile(layouts, given, offset, member.dimension, range.end - range.start)?;
        let memory = self.view_of(source);
        let view = View { offset: memory.offset.checked_add(offset)?, ..memory };
        let nbytes = span(given, self.draft.nbytes[member.tensor as usize], &layout)?;
        let mut new = self.tile(tile, member.tensor, (layout, nbytes), added, buffer);
        new.tensor.view = Some(view);
        Some(self.push(new, &[source]))
    }

    /// Adds the tile of a node, after slices of its sources.
    fn add_computed(
        &mut self,
        tile: &Tile<'_>,
        member: &Member,
        added: &mut Added,
        buffer: BufferIndex,
    ) -> Option<TensorId> {
        let draft = self.draft;
        let (node, kind) = (member.tensor, draft.kinds[member.tensor as usize]);
        let range = tile.grid.elements(&tile.units, member.extent);
        let tiled = tiled(&draft.graph, kind, node, member.dimension)?;
        let given_sources = draft.graph.sources(node);
        let mut sources = [0; MOST_SOURCES];
        let sources = sources.get_mut(..given_sources.len())?;
        let mut tile_kind = kind;
        for ((used, &source), &need) in sources.iter_mut().zip(given_sources).zip(&*tiled.needs) {
            let (dimension, range) = match need {
                Need::Whole | Need::Itself => {
                    *used = source;
                    continue;
                }
                Need::Along { dimension, numerator, denominator } => {
                    if let Some(own) = added.tile_of(tile.region, source) {
                        *used = own;
                        continue;
                    }
                    let scaled = |at: i64| Some(at.checked_mul(numerator)? / denominator);
                    (dimension, scaled(range.start)?..scaled(range.end)?)
                }
                Need::Rows(window) => {
                    let (rows, window) = window.over(&range, draft.graph.layout(source).ne[1])?;
                    tile_kind = Kind::Im2col(Some(window));
                    (1, rows)
                }
            };
            *used = self.add_slice(tile, SliceOf { source, dimension, range }, added, (node, buffer))?;
        }
        let own_id = self.next_id();
        sources.iter_mut().filter(|source| **source == node).for_each(|source| *source = own_id);
        let given = draft.graph.layout(node);
        let (layout, view) = if tile.region.is_internal(node) {
            (packed_tile(given, member.dimension, range.end - range.start)?, None)
        } else {
            let (layout, offset) = slice(given, member.dimension, &range)?;
            let memory = self.view_of(self.memory(node).unwrap_or(node));
            (layout, Some(View { offset: memory.offset.checked_add(offset)?, ..memory }))
        };
        let nbytes = span(given, draft.nbytes[node as usize], &layout)?;
        let mut new = self.tile(tile, node, (layout, nbytes), added, buffer);
        (new.tensor.view, new.kind) = (view, tile_kind);
        Some(self.push(new, sources))
    }

    /// Returns a tile of a tensor, with its own memory and without sources.
    fn tile(
        &mut self,
        tile: &Tile<'_>,
        of: TensorId,
        (layout, nbytes): (Layout, Bytes),
        added: &mut Added,
        buffer: BufferIndex,
    ) -> NewTensor {
        // A tile of a slice is a slice too: its origin is the tensor that is sliced.
        let is_slice = self.draft.origins[of as usize].role == Role::Slice;
        let mut new = self.like(of, if is_slice { Role::Slice } else { Role::Tile }, buffer);
        new.origin.tile = Some(self.tile_within(new.origin.tile, tile.number, added));
        new.tensor.operation = self.draft.graph.tensor(of).operation;
        NewTensor { layout, nbytes, ..new }
    }

    /// Returns the position in [`NewTensors::tiles`] of a tile of a tile, or of a whole tensor.
    fn tile_within(&mut self, within: Option<u32>, [number, of]: [u32; 2], added: &mut Added) -> u32 {
        if let Some(&(_, known)) = added.tiles.iter().find(|(outer, _)| *outer == within) {
            return known;
        }
        let new = u32::try_from(self.tiles.len()).expect("fewer than 2^32 tiles");
        self.tiles.push(TileNumber { number, of, within });
        added.tiles.push((within, new));
        new
    }

    /// Adds a view of a range of a source, for `user` with its requested buffer, unless the tile has it already.
    fn add_slice(
        &mut self,
        tile: &Tile<'_>,
        slice_of: SliceOf,
        added: &mut Added,
        (user, buffer): (TensorId, BufferIndex),
    ) -> Option<TensorId> {
        if let Some(&(_, known)) = added.slices.iter().find(|(other, _)| *other == slice_of) {
            return Some(known);
        }
        let draft = self.draft;
        let SliceOf { source, dimension, ref range } = slice_of;
        let given = draft.graph.layout(source);
        if range.start < 0 || range.end > given.ne[dimension] {
            return None;
        }
        let (layout, offset) = slice(given, dimension, range)?;
        let memory = self.view_of(source);
        let within = draft.origins[source as usize];
        let tile = Some(self.tile_within(within.tile, tile.number, added));
        let flags = Flags(draft.graph.tensor(user).flags.0 & Flags::COMPUTE.0);
        let view = Some(View { offset: memory.offset.checked_add(offset)?, ..memory });
        let external = draft.graph.tensor(source).external;
        let new = NewTensor {
            tensor: Tensor { flags, view, operation: Operation::View, external },
            layout,
            origin: Origin { role: Role::Slice, tile, ..within },
            kind: Kind::View,
            effect: Effect::View,
            nbytes: span(given, draft.nbytes[source as usize], &layout)?,
            buffer,
            of: source,
        };
        let id = self.push(new, &[source]);
        added.slices.push((slice_of, id));
        Some(id)
    }
}
