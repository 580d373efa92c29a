//! Which copies can go.

use crate::graph::order::Effect;
use crate::graph::{Flags, Graph, Layout, TensorId, View, Writes};
use crate::placement::{Bytes, Step};

use super::facts::{Facts, Kind, Memory, Target};
use super::found::{Becomes, Found, Reason};
use super::producer::Producer;
use super::state::State;
use super::strides::{Counting, is_plain, strides_of_view, wanted_by_address};
use super::touches::Touches;

/// With how many nodes before it another backend than the CPU's may compute a node as one.
const FUSED_ELSEWHERE: u8 = 8;

/// INPUT, PARAM and LOSS of ggml: such a tensor must stay what it is.
const EXPECTED: Flags = Flags(1 | 4 | 8);

/// How far the search for a cycle goes before it expects one.
const MOST_VISITS: usize = 16;

/// How much of the memory that an allocator gives may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Freedom {
    /// Nothing: only what has its memory is written to by others.
    Nothing,
    /// Who lives in it, as long as nothing has to live longer.
    Owners,
    /// Also when it is given: a CONCAT then is alive from the first of its operands on.
    Births,
}

/// Looks for copies in `graph` that need not be made.
pub fn find(graph: &Graph, facts: Facts<'_>, freedom: Freedom) -> Found {
    let Some(state) = State::new(graph, facts) else { return Found::default() };
    let (touches, anything) = (touches(&state), anything(&state));
    let mut pass = Pass { state, touches, anything, freedom, found: Found::default() };
    for step in (0..graph.steps()).rev().filter(|&step| (step as usize) < graph.nodes().len()) {
        let node = graph.nodes()[step as usize];
        if facts.kinds[node as usize] != Kind::Other && !graph.layout(node).ne.contains(&0) {
            pass.look_at(node, step);
        }
    }
    Found { changes: pass.state.into_changes(), ..pass.found }
}

/// Who touches the memory that copies write to.
fn touches(state: &State<'_>) -> Touches {
    let graph = state.graph;
    let mut touches = Touches::new(graph.tensors().len());
    for &node in graph.nodes().iter().filter(|&&node| state.facts.kinds[node as usize] != Kind::Other) {
        touches.ask_about(state.memory(graph.root(node)));
    }
    for (step, &node) in (0..).zip(graph.nodes()) {
        if state.facts.effects[node as usize] != Effect::View {
            for &id in graph.sources(node).iter().chain([&node]) {
                touches.push(step, state.region(id));
            }
        }
    }
    touches
}

/// By step: the last before it that may do anything.
fn anything(state: &State<'_>) -> Vec<Option<Step>> {
    let mut last = None;
    let last_before = |(step, &node): (Step, &TensorId)| {
        let before = last;
        if state.facts.effects[node as usize] == Effect::Anything {
            last = Some(step);
        }
        before
    };
    (0..).zip(state.graph.nodes()).map(last_before).collect()
}

/// How the memory is given in which a producer is to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
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
struct Part {
    offset: Bytes,
    layout: Layout,
}

/// A producer that can write where a copy would.
#[derive(Debug)]
struct Move {
    producer: Producer,
    place: View,
    given: Given,
    nb: [u64; 4],
    /// Strides of the views between the producer and the copy.
    views: Vec<[u64; 4]>,
}

struct Pass<'a> {
    state: State<'a>,
    touches: Touches,
    /// By step: the last before it that may do anything.
    anything: Vec<Option<Step>>,
    freedom: Freedom,
    found: Found,
}

impl Pass<'_> {
    fn look_at(&mut self, node: TensorId, step: Step) {
        match self.moves(node, step) {
            Ok(moves) => self.remove(node, moves),
            Err(reason) => self.found.left[reason as usize] += 1,
        }
    }

    /// What must move so that the copy can go.
    fn moves(&mut self, node: TensorId, step: Step) -> Result<Vec<Move>, Reason> {
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

    /// Can the producer write there, and then?
    fn check(&mut self, found: &Move, step: Step) -> Result<(), Reason> {
        let node = found.producer.node;
        let root = found.place.root;
        let memory = self.state.facts.memory[root as usize];
        let on_cpu = match memory {
            Memory::Buffer { cpu, .. } => cpu,
            Memory::Context { .. } => true,
            Memory::Planned => self.state.facts.target == Target::Cpu,
        };
        if !self.may_write(found, on_cpu) {
            return Err(Reason::Layout);
        }
        if found.given == Given::ToProducer {
            return Ok(());
        }
        if matches!(memory, Memory::Buffer { .. }) && !(self.state.facts.runs_at)(node, root) {
            return Err(Reason::Device);
        }
        if found.given != Given::Already && !self.state.facts.has_slot[node as usize] {
            return Err(Reason::Slot);
        }
        if matches!(found.given, Given::To(wanted) if !self.comes_before(wanted, root, found.producer.step)) {
            return Err(Reason::Order);
        }
        self.check_order(found, step, on_cpu)
    }

    /// Can `wanted` be there, with the memory of `root`, before a node at `step` runs?
    fn comes_before(&self, wanted: TensorId, root: TensorId, step: Step) -> bool {
        let state = &self.state;
        let is_given = state.facts.memory[root as usize] != Memory::Planned
            || state.is_leaf[root as usize]
            || state.steps[root as usize].is_some_and(|at| at < step)
            || state.change(root).is_some_and(|change| change.becomes == Becomes::Place);
        is_given && !self.may_need(wanted, step)
    }

    /// Other devices than the CPU write what ggml made, at addresses like those that an allocator gives.
    fn may_write(&self, found: &Move, on_cpu: bool) -> bool {
        let facts = &self.state.facts;
        let node = found.producer.node;
        let own = self.state.graph.layout(node);
        let wanted = Layout { nb: found.nb, ..*own };
        let stays = found.given == Given::ToProducer && wanted.nb == own.tidied(own.nb[0]).nb;
        let can = facts.writes[node as usize];
        let can = if on_cpu { can } else { can.min(Writes::Contiguous) };
        let is_aligned = on_cpu || found.place.offset.is_multiple_of(facts.alignment);
        stays || (is_aligned && can.allows(own, &wanted))
    }

    /// Could making `wanted` need what a node at `step` computes? Only nodes behind it could.
    fn may_need(&self, wanted: TensorId, step: Step) -> bool {
        let state = &self.state;
        let mut left = vec![wanted];
        let mut visits = 0;
        while let Some(id) = left.pop() {
            let is_place = state.change(id).is_some_and(|change| change.becomes == Becomes::Place);
            if is_place || state.steps[id as usize].is_none_or(|at| at < step) {
                continue;
            }
            visits += 1;
            if state.facts.effects[id as usize] != Effect::View || visits > MOST_VISITS {
                return true;
            }
            left.extend(state.graph.sources(id));
        }
        false
    }

    /// Does nobody else use the memory between the producer and the copy? A producer may be computed as one with nodes
    /// before it: it then writes while their sources are read.
    fn check_order(&mut self, found: &Move, step: Step, on_cpu: bool) -> Result<(), Reason> {
        let Producer { node, step: from, .. } = found.producer;
        let region = self.state.region_at(found.place, &self.layout_of(found));
        let fused = if on_cpu { self.state.facts.fused[node as usize] } else { FUSED_ELSEWHERE };
        let first = self.first_fused(from, fused);
        let anything = self.anything[step as usize].is_some_and(|at| at >= first);
        if anything || self.touches.any(&region, first..step, from) {
            return Err(Reason::Order);
        }
        self.check_sources(found, on_cpu)
    }

    fn layout_of(&self, found: &Move) -> Layout {
        Layout { nb: found.nb, ..*self.state.graph.layout(found.producer.node) }
    }

    /// The first of `count` computing nodes before a step.
    fn first_fused(&self, step: Step, count: u8) -> Step {
        let computes = |&step: &Step| {
            let node = self.state.graph.nodes()[step as usize];
            !matches!(self.state.facts.effects[node as usize], Effect::View | Effect::Nothing)
        };
        (0..step).rev().filter(computes).take(usize::from(count)).last().unwrap_or(step)
    }

    /// What the producer reads must not lie where it would write, except exactly there, where it may be computed in place.
    fn check_sources(&self, found: &Move, on_cpu: bool) -> Result<(), Reason> {
        let state = &self.state;
        let node = found.producer.node;
        let layout = self.layout_of(found);
        let region = state.region_at(found.place, &layout);
        let operation = state.graph.tensor(node).operation;
        let mut overlaps = 0;
        for (slot, &source) in state.graph.sources(node).iter().enumerate() {
            let other = state.region(source);
            if source == node || !other.meets(&region) {
                continue;
            }
            let may = operation.may_write_over(slot) && (on_cpu || operation.is_listed());
            let element_size = layout.nb[0];
            let is_same = state.layout(source).tidied(element_size) == layout.tidied(element_size);
            overlaps += 1;
            if !may || !is_same || other.bytes.start != region.bytes.start || overlaps > 1 {
                return Err(Reason::Overlap);
            }
        }
        Ok(())
    }

    fn remove(&mut self, node: TensorId, moves: Vec<Move>) {
        let place = moves.iter().any(|found| found.given == Given::ToCopy);
        for found in moves {
            let layout = self.state.graph.layout(found.producer.node);
            self.found.bytes += count(&layout.ne) * layout.nb[0];
            self.apply(node, found);
        }
        self.state.change_mut(node).becomes = if place { Becomes::Place } else { Becomes::Look };
        self.found.removed.push(node);
    }

    fn apply(&mut self, node: TensorId, found: Move) {
        let Move { producer, place, given, nb, views } = found;
        for (&view, nb) in producer.views.iter().zip(views) {
            let change = self.state.change_mut(view);
            change.view = Some(place);
            change.nb = nb;
        }
        let is_output = self.state.graph.tensor(node).flags.has(Flags::OUTPUT);
        let change = self.state.change_mut(producer.node);
        change.nb = nb;
        if given == Given::ToProducer {
            change.is_output = is_output;
            self.state.change_mut(node).view = Some(place);
            self.state.move_memory(node, producer.node);
        } else {
            change.view = Some(place);
            change.wanted = match given {
                Given::To(wanted) => Some(wanted),
                Given::ToCopy => Some(node),
                Given::Already | Given::ToProducer => None,
            };
        }
        self.touches.insert(producer.step, self.state.region(producer.node));
    }
}

fn count(ne: &[i64; 4]) -> u64 {
    ne.iter().fold(1, |count: u64, &extent| count.saturating_mul(extent.unsigned_abs()))
}
