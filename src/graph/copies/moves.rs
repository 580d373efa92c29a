//! Where the producers of a copy would write for it to be removed.

use crate::graph::{CopyKind, Flags, Layout, TensorId, View};
use crate::placement::{Bytes, Step};

use super::element_order::{ElementOrder, is_plain, strides_by_address, strides_of_view};
use super::state::{CopyState, Pass, Producer};
use super::{CopyTarget, Freedom, Reason, Storage};

/// INPUT, PARAM and LOSS of ggml: such a tensor must stay as it is.
const EXPECTED: Flags = Flags(1 | 4 | 8);

/// The tensor whose memory a producer is to write, and how that memory is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDestination {
    /// This tensor is there, and must come before the producer.
    Tensor(TensorId),
    /// An allocator plans it for the copy, which becomes a placeholder before the producer.
    Copy,
    /// An allocator plans it for the producer, and the copy becomes a view of that.
    Producer,
    /// The copy or its root has it from its context.
    Context,
}

/// Where a source of the copy goes in the memory of the copy.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Bytes from the start of the owner of the memory.
    pub offset: Bytes,
    /// Its layout there.
    pub layout: Layout,
}

/// A producer, and where it would write.
#[derive(Debug)]
pub struct Move {
    /// The node that computes the copied tensor.
    pub producer: Producer,
    /// Where it is to write.
    pub place: View,
    /// The tensor whose memory that is.
    pub destination: CopyDestination,
    /// Its strides there.
    pub nb: [u64; 4],
    /// Strides of the views between the producer and the copy.
    pub views: Vec<[u64; 4]>,
}

impl Pass<'_> {
    /// Returns the moves that remove a copy.
    ///
    /// # Errors
    /// The reason why the copy stays.
    pub fn moves(&mut self, node: TensorId, step: Step) -> Result<Vec<Move>, Reason> {
        if self.state.graph.tensor(node).flags.has(EXPECTED) {
            return Err(Reason::Producer);
        }
        let parts = self.parts(node)?;
        let sources = self.state.graph.sources(node);
        let moves = parts.iter().zip(sources).map(|(part, &source)| self.find_move(node, step, source, part));
        moves.collect()
    }

    /// Returns where each source goes in the memory of the copy.
    fn parts(&self, node: TensorId) -> Result<Vec<Part>, Reason> {
        let whole = Part { offset: self.state.place(node).offset, layout: *self.state.edit.layout(node) };
        if self.state.graph.tensor(node).op.copies() != Some(CopyKind::Concat) {
            return Ok(vec![whole]);
        }
        let &[first, second] = self.state.graph.sources(node) else { return Err(Reason::Producer) };
        let ne = whole.layout.ne;
        let [a, b] = [first, second].map(|id| self.state.graph.layout(id).ne);
        let joined = (0..4).find(|&d| a[d] != ne[d]).ok_or(Reason::Part)?;
        let fits = |d: usize| if d == joined { a[d] + b[d] == ne[d] } else { [a[d], b[d]] == [ne[d]; 2] };
        if !(0..4).all(fits) {
            return Err(Reason::Part);
        }
        let after = whole.offset + a[joined].unsigned_abs() * whole.layout.nb[joined];
        let part = |offset, ne| Part { offset, layout: Layout { ne, ..whole.layout } };
        Ok(vec![part(whole.offset, a), part(after, b)])
    }

    /// Returns the move of the producer of `source`, which `node` copies.
    fn find_move(&mut self, node: TensorId, step: Step, source: TensorId, part: &Part) -> Result<Move, Reason> {
        if self.state.graph.layout(source).element != part.layout.element {
            return Err(Reason::Type);
        }
        let producer = Producer::find(&self.state, source, step)?;
        let destination = self.destination(node, producer.node)?;
        let place = match destination {
            CopyDestination::Producer => View { root: producer.node, offset: 0 },
            _ => View { offset: part.offset, ..self.state.place(node) },
        };
        let (nb, views) = self.strides(&producer, source, &part.layout)?;
        let found = Move { producer, place, destination, nb, views };
        self.check(&found, step)?;
        Ok(found)
    }

    /// Returns the tensor whose memory `node` copies to.
    fn destination(&self, node: TensorId, producer: TensorId) -> Result<CopyDestination, Reason> {
        let state = &self.state;
        let (kind, root) = (state.graph.tensor(node).op.copies(), state.place(node).root);
        let [memory, own] = [root, producer].map(|id| state.facts.tensors[id as usize].memory);
        let destination = match (root == node, memory) {
            (false, _) => self.existing_destination(node)?,
            (true, Storage::Buffer { .. }) => return Err(Reason::Memory),
            (true, Storage::Context { .. }) => CopyDestination::Context,
            (true, Storage::Planned) if kind != Some(CopyKind::Concat) => CopyDestination::Producer,
            (true, Storage::Planned) => CopyDestination::Copy,
        };
        let is_one_backend = destination == CopyDestination::Producer || state.facts.target != CopyTarget::Unknown;
        match (own, memory) {
            (Storage::Planned, Storage::Planned) if is_one_backend => {}
            (Storage::Planned | Storage::Context { .. }, Storage::Buffer { .. } | Storage::Context { .. }) => {}
            _ => return Err(Reason::Memory),
        }
        let required = match (destination, memory) {
            (CopyDestination::Copy, _) => Freedom::LiveRanges,
            (_, Storage::Planned) => Freedom::Owners,
            _ => Freedom::Nothing,
        };
        if required > self.freedom { Err(Reason::Peak) } else { Ok(destination) }
    }

    /// Returns the tensor that is where a copy writes that is a view itself.
    fn existing_destination(&self, node: TensorId) -> Result<CopyDestination, Reason> {
        let CopyState { graph, edit, .. } = &self.state;
        let sources = graph.sources(node);
        if edit.tensor(node).view != graph.tensor(node).view {
            let added = edit.sources(node).get(sources.len());
            return Ok(added.map_or(CopyDestination::Context, |&tensor| CopyDestination::Tensor(tensor)));
        }
        match sources {
            &[_, place] if graph.tensor(node).op.copies() == Some(CopyKind::Into) => Ok(CopyDestination::Tensor(place)),
            _ => Err(Reason::Overlap),
        }
    }

    /// Returns the strides with which the producer puts each element where the copy would have put it, and those of the
    /// views between the two.
    fn strides(
        &self,
        producer: &Producer,
        source: TensorId,
        requested: &Layout,
    ) -> Result<([u64; 4], Vec<[u64; 4]>), Reason> {
        let state = &self.state;
        let own = state.graph.layout(producer.node);
        let element_size = own.nb[0];
        let is_whole = |id: TensorId| state.graph.tensor(id).view.is_none_or(|view| view.offset == 0);
        if !is_plain(own, element_size) || !producer.views.iter().all(|&id| is_whole(id)) {
            return Err(Reason::Part);
        }
        let read = state.graph.layout(source);
        if count(&read.ne) != count(&own.ne) || count(&read.ne) != count(&requested.ne) {
            return Err(Reason::Part);
        }
        if requested.has_overlapping_elements(element_size) {
            return Err(Reason::Layout);
        }
        let strides = ElementOrder::of(requested).strides(read.ne, element_size).ok_or(Reason::Layout)?;
        let elements = strides_by_address(read, strides, element_size).ok_or(Reason::Part)?;
        let nb = elements.strides(own.ne, element_size).ok_or(Reason::Layout)?;
        let of_view = |&id: &TensorId| strides_of_view(state.graph.layout(id), &elements, element_size);
        let views: Option<Vec<[u64; 4]>> = producer.views.iter().map(of_view).collect();
        Ok((nb, views.ok_or(Reason::Layout)?))
    }
}

/// Returns the number of elements.
pub fn count(ne: &[i64; 4]) -> u64 {
    ne.iter().fold(1, |count: u64, &extent| count.saturating_mul(extent.unsigned_abs()))
}
