//! The graph allocator: plans a graph, gets the buffers, and gives the tensors their addresses.

mod assign;
mod explain;
mod held;
mod look;
mod outputs;
mod refusal;
mod tag;
mod tell;

use std::cell::LazyCell;
use std::time::Instant;

use crate::graph::{BufferIndex, BufferSpec, GraphPlan, PlanError, Requests, RuleSetting, TensorId, plan};
use crate::placement::{Bytes, Effort};

use super::buffers::{Buffer, BufferType};
use super::context::Waiting;
use super::fingerprint::Fingerprint;
use super::fit::fit;
use super::planned::Planned;
use super::read::{Reading, Requested, read, read_to_plan};
use super::runtime::Runtime;
use super::statistics::{Statistics, totals};
use super::tensor::GraphRef;
use super::verify::{Verifier, Violation};
pub use refusal::Refusal;
use tag::Tag;
use tell::Decision;

/// What the latest plan wants of one buffer, whether or not it got it.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    size: Bytes,
    lower_bound: Bytes,
}

/// What a `ggml_gallocr_t` points to. The tag comes first, also in memory.
#[derive(Debug)]
#[repr(C)]
pub struct Allocator {
    tag: Tag,
    runtime: &'static Runtime,
    /// By buffer.
    types: Vec<BufferType>,
    /// By buffer.
    buffers: Vec<BufferSpec>,
    /// By buffer id: ids that name the same buffer type share a buffer.
    buffer_of: Vec<BufferIndex>,
    /// By buffer: its chunks, once it was allocated.
    chunks: Vec<Option<Vec<Buffer>>>,
    /// By buffer.
    wanted: Vec<Wanted>,
    /// The latest plan first; empty when the latest could not be had.
    plans: Vec<Planned>,
    statistics: Statistics,
    /// How many plans it had made when it last told of them.
    told: u64,
    /// Watches what it does, where that is wanted.
    verifier: Verifier,
}

/// How many plans an allocator remembers: programs alternate between prompt and token, or token and embedding.
const REMEMBERED: usize = 4;

impl Allocator {
    /// An allocator without memory; buffer id `i` stands for `types[i]`.
    pub fn new(runtime: &'static Runtime, types: &[BufferType]) -> Self {
        if let Some(events) = &runtime.events {
            events.tell_start();
        }
        Self::with_tally(runtime, types, Statistics::new)
    }

    /// The same for a single measurement: no program knows of it.
    pub fn for_measuring(runtime: &'static Runtime, types: &[BufferType]) -> Self {
        Self::with_tally(runtime, types, Statistics::uncounted)
    }

    fn with_tally(
        runtime: &'static Runtime,
        types: &[BufferType],
        statistics: impl FnOnce(usize) -> Statistics,
    ) -> Self {
        let mut distinct: Vec<BufferType> = Vec::new();
        let mut buffer_of = Vec::with_capacity(types.len());
        for &buffer_type in types {
            let known = distinct.iter().position(|&other| other == buffer_type);
            let buffer = known.unwrap_or_else(|| {
                distinct.push(buffer_type);
                distinct.len() - 1
            });
            buffer_of.push(BufferIndex::try_from(buffer).expect("fewer than 2^32 buffers"));
        }
        let settings = runtime.settings();
        Self {
            tag: Tag::new(),
            runtime,
            buffers: distinct.iter().map(|buffer_type| buffer_type.buffer(&settings)).collect(),
            chunks: distinct.iter().map(|_| None).collect(),
            wanted: vec![Wanted::default(); distinct.len()],
            statistics: statistics(distinct.len()),
            told: 0,
            types: distinct,
            buffer_of,
            plans: Vec::with_capacity(REMEMBERED),
            verifier: Verifier::new(settings.verify),
        }
    }

    /// Says which memory may be shared from the next plan on, and forgets the plans made so far.
    pub fn set_rules(&mut self, setting: &RuleSetting) {
        for (buffer, buffer_type) in self.buffers.iter_mut().zip(&self.types) {
            buffer.rules = buffer_type.rules(setting);
        }
        self.plans.clear();
    }

    /// Says how much work placing may take from the next plan on, and forgets the plans made so far.
    pub fn set_effort(&mut self, effort: Effort) {
        self.buffers.iter_mut().for_each(|buffer| buffer.effort = effort);
        self.plans.clear();
    }

    /// How many plans this process has made.
    pub fn plan_count() -> u64 {
        totals().plans
    }

    /// The ggml it works for.
    pub fn runtime(&self) -> &'static Runtime {
        self.runtime
    }

    /// How many buffer ids there are.
    pub fn buffer_count(&self) -> usize {
        self.buffer_of.len()
    }

    /// Bytes of the buffer behind an id; 0 for an id that repeats the buffer type of an earlier one.
    pub fn buffer_size(&self, id: usize) -> Bytes {
        self.first_use(id).map_or(0, |buffer| self.chunks[buffer].iter().flatten().map(Buffer::size).sum())
    }

    /// Bytes that the latest plan wants for an id, whether or not it got them.
    pub fn wanted_size(&self, id: usize) -> Bytes {
        self.first_use(id).map_or(0, |buffer| self.wanted[buffer].size)
    }

    /// The lower bound of the latest plan for an id.
    pub fn lower_bound(&self, id: usize) -> Bytes {
        self.first_use(id).map_or(0, |buffer| self.wanted[buffer].lower_bound)
    }

    /// The buffer of an id, if no earlier id stands for the same.
    fn first_use(&self, id: usize) -> Option<usize> {
        let buffer = self.buffer_of[id];
        (!self.buffer_of[..id].contains(&buffer)).then_some(buffer as usize)
    }

    /// Plans `graph`, unless a remembered plan was made for the same, and gets the buffers for it; the graph itself is not
    /// touched. `None` for the ids means 0.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`]; the allocator then holds no plan and can be used again. [`Refusal::NotRealized`] or
    /// [`Refusal::InitFailed`] when a context cannot give its tensors their memory.
    pub fn reserve(
        &mut self,
        graph: GraphRef<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<(), Refusal> {
        let clock = self.clock();
        let done = self.decide_reserve(graph, node_ids, leaf_ids);
        self.has_decided("reserve", clock, graph, done)
    }

    fn decide_reserve(
        &mut self,
        graph: GraphRef<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<Decision, Refusal> {
        let requested = self.requested(graph, node_ids, leaf_ids);
        self.waiting(graph, &requested)?.realize()?;
        let operations = &self.runtime.operations;
        let fingerprint = LazyCell::new(|| Fingerprint::of(operations, graph));
        let same = |planned: &Planned| planned.requested == requested && planned.is_of(graph, || *fingerprint);
        let decision = match self.plans.iter().position(same) {
            Some(known) => {
                self.plans[..=known].rotate_right(1);
                self.check_outputs_again(graph)?;
                Decision::Remembered
            }
            None => {
                self.add_plan(graph, requested)?;
                Decision::Planned
            }
        };
        self.get_buffers().map(|()| decision)
    }

    /// Gives every tensor of `graph` its memory. With one buffer a graph that was not reserved is reserved now.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub fn allocate(&mut self, graph: GraphRef<'_>) -> Result<(), Refusal> {
        let clock = self.clock();
        let done = self.decide_allocate(graph);
        self.has_decided("allocate", clock, graph, done)
    }

    fn decide_allocate(&mut self, graph: GraphRef<'_>) -> Result<Decision, Refusal> {
        self.realize_waiting(&Waiting::among_listed(graph))?;
        if !self.plans.is_empty() {
            if self.take_up_known(graph) {
                self.check_outputs_again(graph)?;
                self.make_usable()?;
                if let Some(done) = self.assign_by_position(graph) {
                    return done.map(|()| Decision::Same);
                }
            }
            self.realize_waiting(&Waiting::in_graph(graph))?;
            let (runtime, types) = (self.runtime, self.types.clone());
            if let Some(fitting) = self.take_up(|planned| fit(planned, runtime, &types, graph)) {
                self.make_usable()?;
                self.check_outputs(graph, &self.plans[0].requested)?;
                self.note_checked_outputs(graph);
                self.remember(&fitting, Fingerprint::of(&self.runtime.operations, graph));
                return self.assign_fitting(&fitting).map(|()| Decision::Fits);
            }
        }
        if self.buffer_of.len() == 1 {
            self.realize_waiting(&Waiting::in_graph(graph))?;
            self.add_plan(graph, Requested::default())?;
            self.get_buffers()?;
            let done = self.assign_by_position(graph).unwrap_or_else(|| self.assign_if_fitting(graph));
            return done.map(|()| Decision::Planned);
        }
        let is_nothing = self.plans.is_empty() && graph.leafs.is_empty() && graph.nodes.is_empty();
        if is_nothing { Ok(Decision::Empty) } else { Err(Refusal::NeedsReserve) }
    }

    /// Checks the memory that the tensors of `graph` have got, as far as that is wanted: runs the graph in thought, and tells
    /// guards of it. To be called when the graph was allocated.
    ///
    /// # Errors
    /// [`Violation`] when some value would be lost.
    pub fn verify(&mut self, graph: GraphRef<'_>) -> Result<(), Violation> {
        let Self { runtime, verifier, chunks, .. } = self;
        let is_ours = |buffer| chunks.iter().flatten().flatten().any(|own| own.as_ptr() == buffer);
        verifier.verify(runtime, graph, is_ours)
    }

    /// The tensors that are to get their memory from their contexts, when that is where the graph expects them.
    fn waiting<'g>(&self, graph: GraphRef<'g>, requested: &Requested) -> Result<Waiting<'g>, Refusal> {
        let waiting = Waiting::in_graph(graph);
        if self.types.len() > 1 {
            waiting.is_expected(|position| self.types[requested.buffer(position) as usize])?;
        }
        Ok(waiting)
    }

    /// The same where nobody says what the graph expects: with several buffers it has to be reserved.
    fn realize_waiting(&self, waiting: &Waiting<'_>) -> Result<(), Refusal> {
        if waiting.is_empty() || self.types.len() == 1 { waiting.realize() } else { Err(Refusal::NeedsReserve) }
    }

    /// Moves the first plan that `accept` accepts to the front. With several buffers only plans for the same buffer ids
    /// as the latest are asked: nobody says for which ids a graph is allocated.
    fn take_up<T>(&mut self, mut accept: impl FnMut(&Planned) -> Option<T>) -> Option<T> {
        let latest = self.plans.first()?;
        let mut candidates = self.plans.iter().enumerate().filter(|(_, plan)| plan.requested == latest.requested);
        let (index, accepted) = candidates.find_map(|(index, planned)| Some((index, accept(planned)?)))?;
        self.plans[..=index].rotate_right(1);
        Some(accepted)
    }

    /// Takes up the plan that was made for this very graph, or that served it last, if there is one.
    fn take_up_known(&mut self, graph: GraphRef<'_>) -> bool {
        let operations = &self.runtime.operations;
        let fingerprint = LazyCell::new(|| Fingerprint::of(operations, graph));
        self.take_up(|planned| planned.is_of(graph, || *fingerprint).then_some(())).is_some()
            || self.take_up(|planned| planned.served().filter(|served| *served == *fingerprint)).is_some()
    }

    /// A plan taken up again may need buffers of its own. With several of them the program has to ask for them.
    fn make_usable(&mut self) -> Result<(), Refusal> {
        match self.plans.first() {
            Some(planned) if self.has_buffers(planned) => Ok(()),
            Some(_) if self.buffer_of.len() == 1 => self.get_buffers(),
            _ => Err(Refusal::NeedsReserve),
        }
    }

    /// Plans `graph` and puts the plan before those that are remembered.
    fn add_plan(&mut self, graph: GraphRef<'_>, requested: Requested) -> Result<(), Refusal> {
        let start = Instant::now();
        let is_told = self.runtime.captures.are_wanted() || self.runtime.events.is_some();
        let read = if is_told { read } else { read_to_plan };
        let reading = read(self.runtime, &self.types, graph, &requested);
        let is_redirecting = !reading.redirecting.is_empty();
        if is_redirecting {
            self.check_outputs(graph, &requested)?;
        }
        let plan = self.plan(&reading, &requested, start).inspect_err(|_| self.plans.clear())?;
        self.note_plan(&reading, &requested, &plan);
        self.plans.truncate(REMEMBERED - 1);
        let is_by_layout = self.types.iter().all(|buffer_type| buffer_type.goes_by_layout());
        let exact = (!is_by_layout).then(|| Fingerprint::of(&self.runtime.operations, graph));
        self.plans.insert(0, Planned::new(reading, plan, requested, exact));
        if is_redirecting {
            self.note_checked_outputs(graph);
        }
        Ok(())
    }

    /// Plans what was read from `start` on, and captures it where that is wanted.
    fn plan(&mut self, reading: &Reading<'_>, requested: &Requested, start: Instant) -> Result<GraphPlan, Refusal> {
        let planned = self.plan_read(reading, requested);
        self.statistics.has_planned(start.elapsed());
        if self.runtime.captures.are_wanted() {
            self.runtime.captures.capture(self.subject(reading, &requested.of_all(&reading.graph)));
        }
        planned
    }

    fn plan_read(&mut self, reading: &Reading<'_>, requested: &Requested) -> Result<GraphPlan, Refusal> {
        let buffers = requested.of_all(&reading.graph);
        let requests = Requests { leafs: &buffers.leafs, nodes: &buffers.nodes };
        let planned = match reading.sizes_by_layout(&self.types) {
            Some(sizes) => plan(&reading.graph, &self.buffers, requests, &mut |tensor: TensorId, _| sizes(tensor)),
            None => plan(&reading.graph, &self.buffers, requests, &mut |tensor: TensorId, buffer: BufferIndex| {
                reading.alloc_size(&self.types, requested, tensor, buffer)
            }),
        };
        let plan = planned.map_err(|PlanError::TooLarge { buffer, bytes }| {
            self.wanted[buffer as usize] = Wanted { size: bytes, lower_bound: bytes };
            Refusal::NoMemory { buffer: self.types[buffer as usize].name(), size: bytes }
        })?;
        #[cfg(debug_assertions)]
        self.check(reading, &plan);
        for (wanted, buffer) in self.wanted.iter_mut().zip(&plan.buffers) {
            *wanted = Wanted { size: buffer.placement.size(), lower_bound: buffer.lower_bound };
        }
        Ok(plan)
    }

    /// The buffers that were asked for; nothing where there is one only.
    fn requested(&self, graph: GraphRef<'_>, node_ids: Option<&[usize]>, leaf_ids: Option<&[usize]>) -> Requested {
        if self.buffers.len() == 1 {
            return Requested::default();
        }
        let buffers = |ids: Option<&[usize]>, count: usize| match ids {
            Some(ids) => ids.iter().map(|&id| self.buffer_of[id]).collect(),
            None => vec![self.buffer_of[0]; count],
        };
        Requested { leafs: buffers(leaf_ids, graph.leafs.len()), nodes: buffers(node_ids, graph.nodes.len()) }
    }

    /// Debug builds trust no plan.
    #[cfg(debug_assertions)]
    fn check(&self, reading: &Reading<'_>, plan: &GraphPlan) {
        let nbytes: Vec<Bytes> = reading.tensors.iter().map(|&tensor| self.runtime.nbytes(tensor)).collect();
        if let Err(corruption) = crate::graph::simulate(&reading.graph, plan, &nbytes) {
            panic!("the plan is wrong: {corruption}");
        }
    }
}
