//! The edit of a draft: tiles of regions, and outputs that become views of what tiles write.

use std::ops::Range;

use crate::graph::{BufferIndex, Edited, Flags, GraphEdit, InPlace, Layout, Op, Tensor, TensorId, View};
use crate::placement::Bytes;

use super::draft::{Draft, Known, Origin, Role, TileNumber};
use super::operations::{MOST_SOURCES, Need, TileKernels, TileKind};
use super::region::{Grid, Member, Region};
use super::slices::{packed_tile, slice, span};
use super::views::view_of_tile;

/// A draft that is being edited.
pub struct Tiling<'a> {
    /// The draft as it was.
    draft: &'a Draft,
    edit: GraphEdit,
    /// By tensor of the edit.
    known: Vec<Known>,
    /// The tiles of the draft, then the new ones.
    tiles: Vec<TileNumber>,
    /// The requested buffers of the nodes that are listed so far.
    node_buffers: Vec<BufferIndex>,
    /// By tensor of the draft: for an output with its own memory, the memory that its tiles write.
    memories: Vec<Option<TensorId>>,
}

/// A tensor to be added, without its sources.
struct NewTensor {
    tensor: Tensor,
    layout: Layout,
    known: Known,
    buffer: BufferIndex,
    /// The tensor of the draft that it is a tile or a slice of.
    of: TensorId,
}

/// One tile of a region.
#[derive(Clone, Debug)]
pub struct Tile<'r> {
    pub region: &'r Region,
    pub grid: Grid,
    pub units: Range<i64>,
    /// Which tile it is, counted from 1, and of how many.
    pub number: [u32; 2],
    /// What must be computed before it, besides its sources: backends of devices put nodes into another order, and would have several
    /// tiles at a time.
    pub after: Option<TensorId>,
    /// The outputs whose tiles are copied into their memory.
    pub copied: &'r [TensorId],
}

/// The tensors added for a tile so far.
#[derive(Default)]
pub struct Added {
    /// By member of the region: its tile.
    members: Vec<TensorId>,
    slices: Vec<(SliceOf, TensorId)>,
    /// By tile that was tiled again, or `None`: its tile, as a position in [`Tiling::tiles`].
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

impl<'a> Tiling<'a> {
    /// Begins with no nodes.
    pub fn of(draft: &'a Draft) -> Self {
        let mut edit = GraphEdit::new(&draft.graph);
        edit.nodes.clear();
        Self {
            draft,
            edit,
            known: draft.known.clone(),
            tiles: draft.tiles.clone(),
            node_buffers: Vec::with_capacity(2 * draft.node_buffers.len()),
            memories: vec![None; draft.known.len()],
        }
    }

    /// Lists a node.
    pub fn list(&mut self, node: TensorId, buffer: BufferIndex) {
        self.edit.nodes.push(node);
        self.node_buffers.push(buffer);
    }

    /// Returns where the tiles of an output write.
    fn destination(&self, output: TensorId) -> View {
        self.edit.place(self.memories[output as usize].unwrap_or(output))
    }

    /// Adds the memory of an output that has its own.
    pub fn add_memory(&mut self, output: TensorId, buffer: BufferIndex) {
        let mut new = self.like(output, Role::Memory, buffer);
        new.tensor.set_op(Op::None);
        new.known.kind = TileKind::Other;
        self.memories[output as usize] = Some(self.push(new, &[]));
    }

    /// Makes an output a view of the memory that its tiles write, and lists it. Views of it after some of the tiles come
    /// before, so that each has few sources.
    pub fn join(&mut self, output: TensorId, tiles: &[TensorId], buffer: BufferIndex) {
        let memory = self.destination(output);
        let mut sources = vec![memory.root];
        for (position, &tile) in tiles.iter().enumerate() {
            sources.push(tile);
            if sources.len() == MOST_SOURCES && position + 1 < tiles.len() {
                let mut new = self.like(output, Role::Join, buffer);
                new.tensor.view = Some(memory);
                new.tensor.set_op(Op::Reshape);
                new.known.kind = TileKind::Other;
                let join = self.push(new, &sources);
                sources.clear();
                sources.push(join);
            }
        }
        self.edit.set_sources(output, &sources);
        let tensor = self.edit.tensor_mut(output);
        tensor.view = Some(memory);
        tensor.set_op(Op::Reshape);
        let known = &mut self.known[output as usize];
        known.origin.role = known.origin.role.whole();
        known.kind = TileKind::Other;
    }

    /// Returns a new tensor with the layout of a member.
    fn like(&self, member: TensorId, role: Role, buffer: BufferIndex) -> NewTensor {
        let draft = self.draft;
        let mut tensor = Tensor::new();
        tensor.flags = Flags(draft.graph.tensor(member).flags.0 & Flags::COMPUTE.0);
        let known = draft.known[member as usize];
        let known = Known { origin: Origin { role, ..known.origin }, kept: false, ..known };
        NewTensor { tensor, layout: *draft.graph.layout(member), known, buffer, of: member }
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
            let id = if self.draft.known[member.tensor as usize].kind.is_view() {
                self.add_view(tile, member, added, buffer)?
            } else {
                self.add_computed(tile, member, added, buffer)?
            };
            added.members.push(id);
        }
        Some(())
    }

    /// Adds a tensor and lists it.
    fn push(&mut self, new: NewTensor, sources: &[TensorId]) -> TensorId {
        let NewTensor { tensor, layout, known, buffer, of } = new;
        debug_assert!(!tensor.flags.has(Flags::OUTPUT));
        let id = self.edit.add(of, tensor, layout, sources);
        self.known.push(Known { same_memory: id, ..known });
        self.list(id, buffer);
        id
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
        let layouts = [graph.layout(parent), self.edit.layout(source)];
        let given = graph.layout(member.tensor);
        let (layout, offset) = view_of_tile(layouts, given, offset, member.dimension, range.end - range.start)?;
        let memory = self.edit.place(source);
        let view = View { offset: memory.offset.checked_add(offset)?, ..memory };
        let nbytes = span(given, self.draft.known[member.tensor as usize].nbytes, &layout)?;
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
        let (node, kind) = (member.tensor, draft.known[member.tensor as usize].kind);
        let range = tile.grid.elements(&tile.units, member.extent);
        let tiled = draft.tiled(node, member.dimension)?;
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
                    tile_kind = TileKind::Im2col(Some(window));
                    (1, rows)
                }
            };
            *used = self.add_slice(tile, SliceOf { source, dimension, range }, added, (node, buffer))?;
        }
        let given = draft.graph.layout(node);
        let is_copied = tile.copied.contains(&node);
        let (layout, view) = if is_copied || tile.region.is_internal(node) {
            (packed_tile(given, member.dimension, range.end - range.start)?, None)
        } else {
            let (layout, view) = self.slice_of_memory(node, member.dimension, &range)?;
            (layout, Some(view))
        };
        let nbytes = span(given, draft.known[node as usize].nbytes, &layout)?;
        let mut new = self.tile(tile, node, (layout, nbytes), added, buffer);
        (new.tensor.view, new.known.kind) = (view, tile_kind);
        let id = self.push(new, sources);
        // A cast is a source of itself.
        let own = (0..sources.len()).filter(|&slot| sources[slot] == node);
        own.for_each(|slot| self.edit.replace_source(id, slot, id));
        if is_copied { self.add_copy(tile, member, id, added, buffer) } else { Some(id) }
    }

    /// Returns the layout and the place of a range of an output in the memory that its tiles write.
    fn slice_of_memory(&self, output: TensorId, dimension: usize, range: &Range<i64>) -> Option<(Layout, View)> {
        let (layout, offset) = slice(self.draft.graph.layout(output), dimension, range)?;
        let memory = self.destination(output);
        Some((layout, View { offset: memory.offset.checked_add(offset)?, ..memory }))
    }

    /// Adds the copy of a tile of an output into its memory, after a view of that.
    fn add_copy(
        &mut self,
        tile: &Tile<'_>,
        member: &Member,
        of: TensorId,
        added: &mut Added,
        buffer: BufferIndex,
    ) -> Option<TensorId> {
        let output = member.tensor;
        let range = tile.grid.elements(&tile.units, member.extent);
        let (layout, view) = self.slice_of_memory(output, member.dimension, &range)?;
        let nbytes = span(self.draft.graph.layout(output), self.draft.known[output as usize].nbytes, &layout)?;
        let mut add = |tiling: &mut Self, (role, kind): (Role, TileKind), sources: &[TensorId]| {
            let mut new = tiling.tile(tile, output, (layout, nbytes), added, buffer);
            (new.known.origin.role, new.known.kind) = (role, kind);
            new.tensor.view = Some(view);
            new.tensor.set_op(role.op().unwrap_or(Op::View));
            tiling.push(new, sources)
        };
        let destination = add(self, (Role::Slice, TileKind::View), &[view.root]);
        Some(add(self, (Role::Copied, TileKind::Copy), &[of, destination]))
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
        let is_slice = self.draft.known[of as usize].origin.role == Role::Slice;
        let mut new = self.like(of, if is_slice { Role::Slice } else { Role::Tile }, buffer);
        let within = new.known.origin.tile;
        new.known.origin.tile = Some(self.tile_within(within, tile.number, added));
        let given = self.draft.graph.tensor(of);
        (new.tensor.op, new.tensor.in_place) = (given.op, given.in_place);
        new.known.nbytes = nbytes;
        NewTensor { layout, ..new }
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
        let memory = self.edit.place(source);
        let within = draft.known[source as usize].origin;
        let earlier = tile.after.filter(|_| draft.kernels != TileKernels::Cpu);
        let tile = Some(self.tile_within(within.tile, tile.number, added));
        let flags = Flags(draft.graph.tensor(user).flags.0 & Flags::COMPUTE.0);
        let view = Some(View { offset: memory.offset.checked_add(offset)?, ..memory });
        let external = draft.graph.tensor(source).external;
        let known = Known {
            origin: Origin { role: Role::Slice, tile, ..within },
            kind: TileKind::View,
            nbytes: span(given, draft.known[source as usize].nbytes, &layout)?,
            kept: false,
            ..draft.known[source as usize]
        };
        let tensor = Tensor { flags, view, op: Op::View, in_place: InPlace::Never, external };
        let new = NewTensor { tensor, layout, known, buffer, of: source };
        let id = match earlier {
            Some(earlier) => self.push(new, &[source, earlier]),
            None => self.push(new, &[source]),
        };
        added.slices.push((slice_of, id));
        Some(id)
    }

    /// Returns the new draft.
    pub fn finish(mut self) -> Draft {
        for view in self.edit.tensors_mut().filter_map(|tensor| tensor.view.as_mut()) {
            view.root = self.memories.get(view.root as usize).copied().flatten().unwrap_or(view.root);
        }
        let Edited { graph, ids, .. } = self.edit.finish();
        let mut numbers = vec![None; self.known.len()];
        (0..).zip(&ids).for_each(|(number, &id)| numbers[id as usize] = Some(number));
        let known = (0..).zip(&ids).map(|(number, &id)| {
            let known = self.known[id as usize];
            Known { same_memory: numbers[known.same_memory as usize].unwrap_or(number), ..known }
        });
        Draft {
            graph,
            known: known.collect(),
            kernels: self.draft.kernels,
            tiles: self.tiles,
            leaf_buffers: self.draft.leaf_buffers.clone(),
            node_buffers: self.node_buffers,
            given_nbytes: self.draft.given_nbytes.clone(),
        }
    }
}
