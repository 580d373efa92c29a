//! What must move so that a copy can go: who computes what is copied, and where it is to write.

use crate::graph::{Flags, Layout, TensorId, View};
use crate::placement::{Bytes, Step};

use super::facts::{Kind, Memory, Target};
use super::find::{Freedom, Pass};
use super::found::Reason;
use super::producer::Producer;
use super::strides::{Counting, is_plain, strides_of_view, wanted_by_address};

/// INPUT, PARAM and LOSS of ggml: such a tensor must stay what it is.
const EXPECTED: Flags = Flags(1 | 4 | 8);

/// How the memory is given in which a producer is to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// This tensor lies there, and must come before the producer.
    To(TensorId),
    /// An allocator gives it to the copy, which computes nothing any more, and comes before the producer.
    ToCopy,
    /// An allocator gives it to the producer, and the copy becomes a view of that.
    ToProducer,
    /// The copy, or what it is a view of, has it from its context.
    Already,
}

/// Where something that is copied is wanted in the memory of the copy.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// From the start of the owner of the memory.
    pub offset: Bytes,
    /// What of it.
    pub layout: Layout,
}

/// A producer that can write where a copy would.
#[derive(Debug)]
pub struct Move {
    /// Who computes what is copied.
    pub producer: Producer,
    /// Where it is to write.
    pub place: View,
    /// How the memory comes to be there.
    pub given: Given,
    /// Its strides there.
    pub nb: [u64; 4],
    /// Strides of the views between the producer and the copy.
    pub views: Vec<[u64; 4]>,
}

impl Pass<'_> {
    /// What must move so that the copy can go.
    pub fn moves(&mut self, node: TensorId, step: Step) -> Result<Vec<Move>, Reason> {
        if self.state.graph.tensor(node).flags.has(EXPECTED) {
            return Err(Reason::Producer);
        }
        let parts = self.parts(node)?;
        let sources = self.state.graph.sources(node);
        let moves = parts.iter().zip(sources).map(|(part, &source)| self.find_move(node, step, source, part));
        moves.collect()
    }

    /// Where what is copied lies in the memory of the copy, by source.
    fn parts(&self, node: TensorId) -> Result<Vec<Part>, Reason> {
        let whole = Part { offset: self.state.place(node).offset, layout: self.state.layout(node) };
        if self.state.facts.kinds[node as usize] != Kind::Concat {
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
        let behind = whole.offset + a[joined].unsigned_abs() * whole.layout.nb[joined];
        let part = |offset, ne| Part { offset, layout: Layout { ne, ..whole.layout } };
        Ok(vec![part(whole.offset, a), part(behind, b)])
    }

    /// The move of what computes `source`, which `node` copies.
    fn find_move(&mut self, node: TensorId, step: Step, source: TensorId, part: &Part) -> Result<Move, Reason> {
        if self.state.graph.layout(source).element != part.layout.element {
            return Err(Reason::Type);
        }
        let producer = Producer::find(&self.state, source, step)?;
        let given = self.given(node, producer.node)?;
        let place = match given {
            Given::ToProducer => View { root: producer.node, offset: 0 },
            _ => View { offset: part.offset, ..self.state.place(node) },
        };
        let (nb, views) = self.strides(&producer, source, &part.layout)?;
        let found = Move { producer, place, given, nb, views };
        self.check(&found, step)?;
        Ok(found)
    }

    /// How the memory comes to be there that `node` copies to.
    fn given(&self, node: TensorId, producer: TensorId) -> Result<Given, Reason> {
        let state = &self.state;
        let (kind, root) = (state.facts.kinds[node as usize], state.place(node).root);
        let [memory, own] = [root, producer].map(|id| state.facts.memory[id as usize]);
        let given = match (root == node, memory) {
            (false, _) => self.named_place(node)?,
            (true, Memory::Buffer { .. }) => return Err(Reason::Memory),
            (true, Memory::Context { .. }) => Given::Already,
            (true, Memory::Planned) if kind != Kind::Concat => Given::ToProducer,
            (true, Memory::Planned) => Given::ToCopy,
        };
        let is_one_backend = given == Given::ToProducer || state.facts.target != Target::Unknown;
        match (own, memory) {
            (Memory::Planned, Memory::Planned) if is_one_backend => {}
            (Memory::Planned | Memory::Context { .. }, Memory::Buffer { .. } | Memory::Context { .. }) => {}
            _ => return Err(Reason::Memory),
        }
        let wanted = match (given, memory) {
            (Given::ToCopy, _) => Freedom::Births,
            (_, Memory::Planned) => Freedom::Owners,
            _ => Freedom::Nothing,
        };
        if wanted > self.freedom { Err(Reason::Peak) } else { Ok(given) }
    }

    /// The tensor that lies where a copy writes that is a view itself.
    fn named_place(&self, node: TensorId) -> Result<Given, Reason> {
        if let Some(change) = self.state.change(node) {
            return Ok(change.wanted.map_or(Given::Already, Given::To));
        }
        match self.state.graph.sources(node) {
            &[_, place] if self.state.facts.kinds[node as usize] == Kind::Into => Ok(Given::To(place)),
            _ => Err(Reason::Overlap),
        }
    }

    /// The strides with which the producer puts each element where the copy would have put it, and those that the views
    /// between the two then have.
    fn strides(
        &self,
        producer: &Producer,
        source: TensorId,
        wanted: &Layout,
    ) -> Result<([u64; 4], Vec<[u64; 4]>), Reason> {
        let state = &self.state;
        let own = state.graph.layout(producer.node);
        let element_size = own.nb[0];
        let is_whole = |id: TensorId| state.graph.tensor(id).view.is_none_or(|view| view.offset == 0);
        if !is_plain(own, element_size) || !producer.views.iter().all(|&id| is_whole(id)) {
            return Err(Reason::Part);
        }
        let read = state.graph.layout(source);
        if count(&read.ne) != count(&own.ne) || count(&read.ne) != count(&wanted.ne) {
            return Err(Reason::Part);
        }
        if wanted.has_elements_over_one_another(element_size) {
            return Err(Reason::Layout);
        }
        let strides = Counting::of(wanted).strides(read.ne, element_size).ok_or(Reason::Layout)?;
        let elements = wanted_by_address(read, strides, element_size).ok_or(Reason::Part)?;
        let nb = elements.strides(own.ne, element_size).ok_or(Reason::Layout)?;
        let of_view = |&id: &TensorId| strides_of_view(state.graph.layout(id), &elements, element_size);
        let views: Option<Vec<[u64; 4]>> = producer.views.iter().map(of_view).collect();
        Ok((nb, views.ok_or(Reason::Layout)?))
    }
}

/// How many elements there are.
pub fn count(ne: &[i64; 4]) -> u64 {
    ne.iter().fold(1, |count: u64, &extent| count.saturating_mul(extent.unsigned_abs()))
}
