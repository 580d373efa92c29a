//! The tensors that may be recomputed, and the limits of a recomputation.

use crate::graph::live_bytes::{Model, ValueId};
use crate::graph::order::{Hazards, last_barrier};
use crate::graph::{BufferSpec, Effect, Flags, Graph, NotChanged, Requests, TensorId};
use crate::placement::Step;

/// A graph to recompute, with facts about its tensors, all by id.
#[derive(Clone, Copy, Debug)]
pub struct TrainingGraph<'a> {
    /// A training graph: the forward pass up to the last node with [`Flags::LOSS`], then the backward pass.
    pub graph: &'a Graph,
    /// How each buffer is planned.
    pub buffers: &'a [BufferSpec],
    /// The requested buffers of the leafs and nodes.
    pub requests: Requests<'a>,
    /// The first tensor that each tensor aliases; a root whose memory aliases no other has its own id.
    pub same_memory: &'a [TensorId],
    /// The work of each node, see [`work_of`](super::work_of).
    pub work: &'a [u64],
    /// Whether the caller keeps it: neither it nor the tensor that it views is computed again. Retained tensors are
    /// kept too.
    pub kept: &'a [bool],
}

/// Facts about the nodes of a graph, by step, that hold whatever is recomputed.
#[derive(Debug)]
pub struct NodeFacts {
    /// The first step of the backward pass.
    pub boundary: Step,
    /// By step: the forward steps that compute its sources.
    pub sources: Vec<Vec<Step>>,
    /// By forward step: the value that it computes or is a view of.
    pub values: Vec<Option<ValueId>>,
    /// By value: whether it may be computed again, and the step that computes it.
    pub candidates: Vec<Option<Step>>,
    /// By step.
    pub work: Vec<u64>,
    /// Nodes that nothing depends on and that need no memory, such as the steps of an optimizer: they run as soon as
    /// they can, so that their sources are freed.
    pub sinks: Vec<Sink>,
    /// By step: the sinks that wait for it.
    pub waiting: Vec<Vec<u32>>,
    /// By forward step: the sinks that use its result, or write memory which it reads. They wait until it has been
    /// computed again, if it is.
    pub waiting_for_copy: Vec<Vec<u32>>,
}

/// A node that may run as soon as others have run.
#[derive(Clone, Copy, Debug)]
pub struct Sink {
    /// Its step.
    pub step: Step,
    /// How many nodes it waits for.
    pub waits_for: u32,
}

impl NodeFacts {
    /// Collects the facts.
    ///
    /// # Errors
    /// [`NotChanged`] if the graph has no backward pass, or lists a tensor twice.
    pub fn of(subject: TrainingGraph<'_>, hazards: &Hazards, model: &Model) -> Result<Self, NotChanged> {
        let graph = subject.graph;
        let boundary = boundary(graph)?;
        NotChanged::check_lists(graph)?;
        let mut builder = Builder::new(subject, boundary);
        let (sinks, waiting) = builder.sinks(hazards, model);
        let waiting_for_copy = builder.waiting_for_copy(&sinks);
        let nodes = || graph.nodes().iter();
        let values = &model.value_of;
        builder.keep_written_twice();
        builder.forget_writers(&sinks);
        let forward = &graph.nodes()[..boundary as usize];
        Ok(Self {
            boundary,
            sources: nodes().map(|&node| builder.forward_sources(node)).collect(),
            values: forward.iter().map(|&node| values[graph.root(node) as usize]).collect(),
            candidates: builder.candidates(model, values),
            work: nodes().map(|&node| subject.work[node as usize]).collect(),
            sinks,
            waiting,
            waiting_for_copy,
        })
    }
}

/// Returns the first step after the last loss.
fn boundary(graph: &Graph) -> Result<Step, NotChanged> {
    let is_loss = |&node: &TensorId| graph.tensor(node).flags.has(Flags::LOSS);
    let loss = graph.nodes().iter().rposition(is_loss).ok_or(NotChanged::NoLoss)?;
    let boundary = Step::try_from(loss + 1).expect("fewer than 2^32 nodes");
    if boundary as usize == graph.nodes().len() { Err(NotChanged::NoBackward) } else { Ok(boundary) }
}

/// Returns, by memory, the steps that write it.
fn writers(subject: TrainingGraph<'_>) -> Vec<Vec<Step>> {
    let graph = subject.graph;
    let mut writers = vec![Vec::new(); graph.tensors().len()];
    let memory = |id: TensorId| subject.same_memory[graph.root(id) as usize] as usize;
    for (step, &node) in (0..).zip(graph.nodes()) {
        match graph.tensor(node).op.effect() {
            Effect::Nothing | Effect::View => {}
            Effect::Result => writers[memory(node)].push(step),
            effect @ (Effect::Sources(_) | Effect::Anything) => {
                let sources = graph.sources(node).iter().enumerate();
                let written = sources.filter(|&(position, _)| effect.writes_source(position)).map(|(_, source)| source);
                written.chain([&node]).for_each(|&tensor| writers[memory(tensor)].push(step));
            }
        }
    }
    writers
}

struct Builder<'a> {
    subject: TrainingGraph<'a>,
    boundary: Step,
    /// By tensor: the step that computes it.
    defs: Vec<Option<Step>>,
    /// By memory: the steps that write it.
    writers: Vec<Vec<Step>>,
    /// By tensor: whether it must not be computed again.
    is_kept: Vec<bool>,
}

impl<'a> Builder<'a> {
    fn new(subject: TrainingGraph<'a>, boundary: Step) -> Self {
        let graph = subject.graph;
        let filled = graph.tensors().iter().map(|tensor| tensor.flags.has(Flags::NEVER_RECOMPUTED));
        let mut is_kept: Vec<bool> = filled.zip(subject.kept).map(|(is_filled, kept)| is_filled || *kept).collect();
        graph.retention().list().iter().for_each(|retained| is_kept[retained.tensor as usize] = true);
        Self { subject, boundary, defs: graph.first_defs(), writers: writers(subject), is_kept }
    }

    fn memory(&self, tensor: TensorId) -> usize {
        self.subject.same_memory[self.subject.graph.root(tensor) as usize] as usize
    }

    fn forward_sources(&self, node: TensorId) -> Vec<Step> {
        let sources = self.subject.graph.sources(node).iter().filter(|&&source| source != node);
        sources.filter_map(|&source| self.defs[source as usize]).filter(|&step| step < self.boundary).collect()
    }

    /// Finds the sinks, and the steps that they wait for.
    fn sinks(&self, hazards: &Hazards, model: &Model) -> (Vec<Sink>, Vec<Vec<u32>>) {
        let mut sinks = Vec::new();
        let count = self.subject.graph.nodes().len();
        let mut waiting = vec![Vec::new(); count];
        // The last node stays the last.
        let last = Step::try_from(count - 1).expect("fewer than 2^32 nodes");
        for step in self.boundary..last {
            // One that waits for no other has no earlier place.
            let is_sink = !hazards.before(step).is_empty() && hazards.after(step).iter().all(|&later| later == last);
            if is_sink && model.computes(step).is_none() {
                let number = u32::try_from(sinks.len()).expect("fewer than 2^32 nodes");
                hazards.before(step).iter().for_each(|&earlier| waiting[earlier as usize].push(number));
                let waits_for = u32::try_from(hazards.before(step).len()).expect("fewer than 2^32 nodes");
                sinks.push(Sink { step, waits_for });
            }
        }
        (sinks, waiting)
    }

    /// Returns, by forward step, the sinks that use its result or write memory which it reads.
    fn waiting_for_copy(&self, sinks: &[Sink]) -> Vec<Vec<u32>> {
        let graph = self.subject.graph;
        let mut by_memory = vec![Vec::new(); self.writers.len()];
        let mut sink_at = vec![None; graph.nodes().len()];
        (0u32..).zip(sinks).for_each(|(number, sink)| sink_at[sink.step as usize] = Some(number));
        for (memory, writers) in self.writers.iter().enumerate() {
            by_memory[memory].extend(writers.iter().filter_map(|&step| sink_at[step as usize]));
        }
        let forward = &graph.nodes()[..self.boundary as usize];
        let overwriting = |&node: &TensorId| -> Vec<u32> {
            let read = graph.sources(node).iter().map(|&source| &by_memory[self.memory(source)]);
            read.flatten().copied().collect()
        };
        let mut waiting: Vec<Vec<u32>> = forward.iter().map(overwriting).collect();
        for (number, sink) in (0..).zip(sinks) {
            let used = self.forward_sources(graph.nodes()[sink.step as usize]);
            used.iter().for_each(|&step| waiting[step as usize].push(number));
        }
        for waiting in &mut waiting {
            waiting.sort_unstable();
            waiting.dedup();
        }
        waiting
    }

    /// Keeps what several nodes write: a copy would have what one of them writes.
    fn keep_written_twice(&mut self) {
        for &node in self.subject.graph.nodes() {
            if self.writers[self.memory(node)].len() > 1 {
                self.is_kept[node as usize] = true;
            }
        }
    }

    /// Forgets what sinks write: they wait for those that read it.
    fn forget_writers(&mut self, sinks: &[Sink]) {
        for writers in &mut self.writers {
            writers.retain(|step| sinks.binary_search_by_key(step, |sink| sink.step).is_err());
        }
    }

    /// Returns the values that may be computed again: by an operation that writes its result and nothing else, from
    /// sources that nothing writes later, into memory that nothing else writes.
    fn candidates(&self, model: &Model, values: &[Option<ValueId>]) -> Vec<Option<Step>> {
        let graph = self.subject.graph;
        let barrier = last_barrier(graph);
        let mut candidates = vec![None; model.values.len()];
        for (step, &node) in (0..).zip(&graph.nodes()[..self.boundary as usize]) {
            let Some(value) = values[node as usize] else { continue };
            let may = !self.is_kept[node as usize]
                && graph.tensor(node).op.effect() == Effect::Result
                && model.values[value as usize].ends
                && !model.values[value as usize].from_start
                && barrier.is_none_or(|barrier| barrier < step)
                && self.writers[self.memory(node)] == [step]
                && graph.sources(node).iter().all(|&source| source == node || self.is_same_later(source, step));
            candidates[value as usize] = may.then_some(step);
        }
        self.exclude_views(&mut candidates, values);
        self.exclude_unread(&mut candidates, values);
        candidates
    }

    /// Returns `true` if a source of a node at `step` holds the same bytes whenever the node runs again.
    fn is_same_later(&self, source: TensorId, step: Step) -> bool {
        let is_defined = self.defs[source as usize].is_none_or(|def| def < step);
        is_defined && self.writers[self.memory(source)].last().is_none_or(|&last| last < step)
    }

    /// Excludes values with views that are kept, or that cannot be told to be views of a copy.
    fn exclude_views(&self, candidates: &mut [Option<Step>], values: &[Option<ValueId>]) {
        let graph = self.subject.graph;
        for (id, tensor) in (0..).zip(graph.tensors()) {
            let Some(value) = tensor.view.and_then(|view| values[view.root as usize]) else { continue };
            if self.is_kept[id as usize] || self.defs[id as usize].is_none() || !self.reaches_root(id) {
                candidates[value as usize] = None;
            }
        }
    }

    /// Returns `true` if a view's first source is its root, or a view of it that does, and runs before the view.
    fn reaches_root(&self, view: TensorId) -> bool {
        let graph = self.subject.graph;
        let Some(&source) = graph.sources(view).first() else { return false };
        let runs_before = self.defs[source as usize].is_some_and(|def| Some(def) < self.defs[view as usize]);
        graph.tensor(view).op.is_view() && graph.root(source) == graph.root(view) && runs_before
    }

    /// Excludes values that no forward node reads: dropping them would leave nothing that frees them.
    fn exclude_unread(&self, candidates: &mut [Option<Step>], values: &[Option<ValueId>]) {
        let graph = self.subject.graph;
        let mut is_read = vec![false; candidates.len()];
        for &node in &graph.nodes()[..self.boundary as usize] {
            for &source in graph.sources(node).iter().filter(|&&source| source != node) {
                if let Some(value) = values[graph.root(source) as usize] {
                    is_read[value as usize] = true;
                }
            }
        }
        let unread = candidates.iter_mut().zip(is_read).filter(|(_, is_read)| !is_read);
        unread.for_each(|(candidate, _)| *candidate = None);
    }
}
