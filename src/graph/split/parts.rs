//! The new tensors of one part of a region.

use std::collections::HashMap;
use std::ops::Range;

use crate::graph::{BufferIndex, Effect, Flags, Layout, Operation, Tensor, TensorId, View};
use crate::placement::Bytes;

use super::draft::{Draft, Origin, Role};
use super::operations::{Kind, MOST_SOURCES, Need, cut};
use super::region::{Grid, Member, Region};
use super::slices::{packed_part, slice, span};
use super::views::view_of_part;

/// A tensor that a cut adds. Its ids count on from those of the draft.
#[derive(Debug)]
pub struct NewTensor {
    pub tensor: Tensor,
    pub layout: Layout,
    pub sources: Vec<TensorId>,
    pub origin: Origin,
    pub kind: Kind,
    pub effect: Effect,
    pub nbytes: Bytes,
    pub buffer: BufferIndex,
    /// The tensor of the draft that it is a part or a slice of.
    pub of: TensorId,
}

/// The new tensors of a draft, in the order of execution.
pub struct NewTensors<'a> {
    draft: &'a Draft,
    pub list: Vec<NewTensor>,
    /// By output with memory of its own: the memory that its parts write.
    memories: HashMap<TensorId, TensorId>,
}

/// One part of a region.
#[derive(Clone, Debug)]
pub struct Part<'r> {
    pub region: &'r Region,
    pub grid: Grid,
    pub units: Range<i64>,
    /// Which part it is, counted from 1, and of how many.
    pub number: [u32; 2],
}

impl<'a> NewTensors<'a> {
    pub fn of(draft: &'a Draft) -> Self {
        Self { draft, list: Vec::new(), memories: HashMap::new() }
    }

    /// Returns the memory that the parts of an output write, if it is new.
    pub fn memory(&self, output: TensorId) -> Option<TensorId> {
        self.memories.get(&output).copied()
    }

    /// Adds the memory of an output that has its own.
    pub fn add_memory(&mut self, output: TensorId, buffer: BufferIndex) {
        let mut new = self.like(output, Role::Memory, buffer);
        new.tensor.operation = Operation::Marker;
        (new.kind, new.effect) = (Kind::Other, Effect::Nothing);
        let id = self.push(new);
        self.memories.insert(output, id);
    }

    /// Adds views of an output after some of its parts, so that each has few sources. Returns the sources of the output
    /// itself: the last of these views or the memory, and the other parts.
    pub fn add_joins(&mut self, output: TensorId, parts: &[TensorId], buffer: BufferIndex) -> Vec<TensorId> {
        let memory = self.view_of(self.memory(output).unwrap_or(output));
        let mut sources = vec![memory.root];
        for (position, &part) in parts.iter().enumerate() {
            sources.push(part);
            if sources.len() == MOST_SOURCES && position + 1 < parts.len() {
                let mut new = self.like(output, Role::Join, buffer);
                new.tensor.view = Some(memory);
                new.tensor.operation = Operation::View;
                (new.kind, new.effect) = (Kind::Other, Effect::View);
                new.sources = sources;
                sources = vec![self.push(new)];
            }
        }
        sources
    }

    /// Returns a new tensor with the layout of a member.
    fn like(&self, member: TensorId, role: Role, buffer: BufferIndex) -> NewTensor {
        let draft = self.draft;
        let origin = Origin { role, ..draft.origins[member as usize].clone() };
        let mut tensor = Tensor::new();
        tensor.flags = Flags(draft.graph.tensor(member).flags.0 & Flags::COMPUTE.0);
        NewTensor {
            tensor,
            layout: *draft.graph.layout(member),
            sources: Vec::new(),
            origin,
            kind: draft.kinds[member as usize],
            effect: draft.effects[member as usize],
            nbytes: draft.nbytes[member as usize],
            buffer,
            of: member,
        }
    }

    /// Adds the tensors of a part; `buffer` has the requested buffer of each member. Returns the ids of the parts by member;
    /// `None` if one cannot be made.
    pub fn add_part(
        &mut self,
        part: &Part<'_>,
        buffer: impl Fn(TensorId) -> BufferIndex,
    ) -> Option<HashMap<TensorId, TensorId>> {
        let mut own = HashMap::new();
        let mut slices = HashMap::new();
        for member in &part.region.members {
            let new = if self.draft.kinds[member.tensor as usize].is_view() {
                self.view(part, member, &own, buffer(member.tensor))?
            } else {
                self.computed(part, member, &own, &mut slices, buffer(member.tensor))?
            };
            own.insert(member.tensor, self.push(new));
        }
        Some(own)
    }

    fn push(&mut self, new: NewTensor) -> TensorId {
        self.list.push(new);
        self.id(self.list.len() - 1)
    }

    fn id(&self, position: usize) -> TensorId {
        TensorId::try_from(self.draft.graph.tensors().len() + position).expect("fewer than 2^32 tensors")
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

    /// Returns the part of a view of what is internal.
    fn view(
        &self,
        part: &Part<'_>,
        member: &Member,
        own: &HashMap<TensorId, TensorId>,
        buffer: BufferIndex,
    ) -> Option<NewTensor> {
        let graph = &self.draft.graph;
        let parent = *graph.sources(member.tensor).first()?;
        let source = *own.get(&parent)?;
        let range = part.grid.elements(&part.units, member.extent);
        let within = |id: TensorId| graph.tensor(id).view.map_or(0, |view| view.offset);
        let offset = within(member.tensor).checked_sub(within(parent))?;
        let layouts = [graph.layout(parent), self.layout(source)];
        let given = graph.layout(member.tensor);
        let (layout, offset) = view_of_part(layouts, given, offset, member.dimension, range.end - range.start)?;
        let memory = self.view_of(source);
        let view = View { offset: memory.offset.checked_add(offset)?, ..memory };
        let nbytes = span(given, self.draft.nbytes[member.tensor as usize], &layout)?;
        let mut new = self.part(part, member.tensor, layout, nbytes, buffer);
        (new.tensor.view, new.sources) = (Some(view), vec![source]);
        Some(new)
    }

    /// Returns the part of a node, after slices of its sources.
    fn computed(
        &mut self,
        part: &Part<'_>,
        member: &Member,
        own: &HashMap<TensorId, TensorId>,
        slices: &mut HashMap<(TensorId, usize, i64, i64), TensorId>,
        buffer: BufferIndex,
    ) -> Option<NewTensor> {
        let draft = self.draft;
        let (node, kind) = (member.tensor, draft.kinds[member.tensor as usize]);
        let range = part.grid.elements(&part.units, member.extent);
        let cut = cut(&draft.graph, kind, node, member.dimension)?;
        let mut sources = Vec::with_capacity(cut.needs.len());
        let mut part_kind = kind;
        let number = part.number;
        for (&source, need) in draft.graph.sources(node).iter().zip(cut.needs) {
            let mut sliced = |this: &mut Self, dimension: usize, range: Range<i64>| -> Option<TensorId> {
                let key = (source, dimension, range.start, range.end);
                match slices.get(&key) {
                    Some(&known) => Some(known),
                    None => {
                        let new = this.slice(source, dimension, &range, number, (node, buffer))?;
                        let id = this.push(new);
                        slices.insert(key, id);
                        Some(id)
                    }
                }
            };
            let used = match need {
                Need::Whole => source,
                // The id of the node itself follows when it is added.
                Need::Itself => TensorId::MAX,
                Need::Along { .. } if own.contains_key(&source) => *own.get(&source)?,
                Need::Along { dimension, numerator, denominator } => {
                    let scaled = |at: i64| Some(at.checked_mul(numerator)? / denominator);
                    sliced(self, dimension, scaled(range.start)?..scaled(range.end)?)?
                }
                Need::Rows(window) => {
                    let (rows, window) = window.over(&range, draft.graph.layout(source).ne[1])?;
                    part_kind = Kind::Im2col(Some(window));
                    sliced(self, 1, rows)?
                }
            };
            sources.push(used);
        }
        let own_id = self.id(self.list.len());
        sources.iter_mut().filter(|source| **source == TensorId::MAX).for_each(|source| *source = own_id);
        let given = draft.graph.layout(node);
        let (layout, view) = if part.region.is_internal(node) {
            (packed_part(given, member.dimension, range.end - range.start)?, None)
        } else {
            let (layout, offset) = slice(given, member.dimension, &range)?;
            let memory = self.view_of(self.memory(node).unwrap_or(node));
            (layout, Some(View { offset: memory.offset.checked_add(offset)?, ..memory }))
        };
        let nbytes = span(given, draft.nbytes[node as usize], &layout)?;
        let mut new = self.part(part, node, layout, nbytes, buffer);
        (new.tensor.view, new.sources, new.kind) = (view, sources, part_kind);
        Some(new)
    }

    /// Returns a part of a tensor, without sources and with memory of its own.
    fn part(&self, part: &Part<'_>, of: TensorId, layout: Layout, nbytes: Bytes, buffer: BufferIndex) -> NewTensor {
        let mut new = self.like(of, Role::Part, buffer);
        new.origin.parts.push(part.number);
        new.tensor.operation = self.draft.graph.tensor(of).operation;
        NewTensor { layout, nbytes, ..new }
    }

    /// Returns a view of a range of a source, for `user` with its requested buffer.
    fn slice(
        &self,
        source: TensorId,
        dimension: usize,
        range: &Range<i64>,
        number: [u32; 2],
        (user, buffer): (TensorId, BufferIndex),
    ) -> Option<NewTensor> {
        let draft = self.draft;
        let given = draft.graph.layout(source);
        if range.start < 0 || range.end > given.ne[dimension] {
            return None;
        }
        let (layout, offset) = slice(given, dimension, range)?;
        let memory = self.view_of(source);
        let mut origin = draft.origins[source as usize].clone();
        origin.role = Role::Slice;
        origin.parts.push(number);
        let flags = Flags(draft.graph.tensor(user).flags.0 & Flags::COMPUTE.0);
        let view = Some(View { offset: memory.offset.checked_add(offset)?, ..memory });
        let external = draft.graph.tensor(source).external;
        Some(NewTensor {
            tensor: Tensor { flags, view, operation: Operation::View, external },
            layout,
            sources: vec![source],
            origin,
            kind: Kind::View,
            effect: Effect::View,
            nbytes: span(given, draft.nbytes[source as usize], &layout)?,
            buffer,
            of: source,
        })
    }
}
