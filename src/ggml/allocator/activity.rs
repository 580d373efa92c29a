//! Reports the work of an allocator to the event report, the log and the statistics.

use std::time::{Duration, Instant};

use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::observe::accounting::{GraphDraft, recorder};
use crate::ggml::observe::events::{BufferEvent, Events, PlannedBufferSizes};
use crate::ggml::observe::statistics::{LargestPlan, Statistics};
use crate::ggml::read::{ReadGraph, Requested};
use crate::ggml::refusal::Refusal;
use crate::graph::{Flags, GraphPlan, TensorId, shape_label};
use crate::placement::Bytes;
use crate::settings::Level;

use super::chunks::Chunks;
use super::planner::BufferTypes;

/// The decision for a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It was planned.
    Planned,
    /// It was reserved again, and a cached plan was made for it.
    Remembered,
    /// It matches the key of a cached plan, or is a graph that a plan served lately.
    Matches,
    /// It differs from the planned graph, and the plan fits it.
    Fits,
    /// It has no tensors.
    Empty,
}

impl Decision {
    /// The predicate of a log line about the graph.
    fn description(self) -> &'static str {
        match self {
            Self::Planned => "was planned",
            Self::Remembered => "has a cached plan",
            Self::Matches => "matches the plan",
            Self::Fits => "fits the plan",
            Self::Empty => "is empty",
        }
    }
}

/// The memory that a graph needs in one buffer, whether or not it could be allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes of all chunks.
    pub size: Bytes,
    /// The peak of live bytes, the lower bound of any plan with these live ranges; 0 if ggml's own allocator measured.
    pub lower_bound: Bytes,
}

impl Need {
    /// Returns the size that is enough for either of two graphs.
    pub fn max(self, other: Self) -> Self {
        Self { size: self.size.max(other.size), lower_bound: self.lower_bound.max(other.lower_bound) }
    }
}

/// A buffer of an allocator, as it is reported.
#[derive(Debug)]
pub struct BufferState {
    /// The first buffer id that refers to it.
    pub id: usize,
    /// Its index among the allocator's buffers.
    pub index: usize,
    /// The name of its type.
    pub name: String,
    /// Bytes held.
    pub bytes: Bytes,
    /// Bytes that the latest plan requires.
    pub required: Need,
    /// Whether other allocators share it.
    pub is_shared: bool,
}

/// The work of an allocator, and where it is reported.
#[derive(Debug)]
pub struct Activity {
    runtime: &'static Runtime,
    events: Option<&'static Events>,
    /// Whether the log shows how long calls take.
    is_timed: bool,
    statistics: Statistics,
    /// The number of plans at the last report.
    reported_plans: u64,
    /// The backend of the graph that was planned last; empty if plans are not reported.
    graph: String,
    /// The graph with the largest plan so far, until its chunks are allocated, for the accounting of the process.
    accounted: Option<Box<GraphDraft>>,
}

impl Activity {
    /// Creates the activity of an allocator that a program uses; reports the start.
    pub fn new(runtime: &'static Runtime, events: Option<&'static Events>, buffers: usize) -> Self {
        if let Some(events) = events {
            events.write_start();
        }
        Self::with(runtime, events, Statistics::new(buffers))
    }

    /// Creates the activity of an allocator for a single measurement, which is neither reported nor counted.
    pub fn unreported(runtime: &'static Runtime, buffers: usize) -> Self {
        Self::with(runtime, None, Statistics::uncounted(buffers))
    }

    fn with(runtime: &'static Runtime, events: Option<&'static Events>, statistics: Statistics) -> Self {
        let is_timed = runtime.is_log_enabled(Level::Debug);
        Self { runtime, events, is_timed, statistics, reported_plans: 0, graph: String::new(), accounted: None }
    }

    /// Returns the number of the allocator in its process; 0 if it is not counted.
    pub fn number(&self) -> u64 {
        self.statistics.number
    }

    /// Returns `true` if plans go to an event report, which compares them with ggml's own allocator.
    pub fn are_events_requested(&self) -> bool {
        self.events.is_some()
    }

    /// Notes the graph that is planned, for the report.
    pub fn note_graph(&mut self, reading: &ReadGraph<'_>) {
        if self.are_events_requested() {
            let input = |&id: &TensorId| {
                let tensor = reading.tensors[id as usize];
                (tensor.name(), tensor.ne())
            };
            let graph = &reading.graph;
            self.statistics.retained += graph.retained().len();
            let inputs = graph.leafs().iter().filter(|&&id| graph.tensor(id).flags.has(Flags::INPUT));
            self.graph = shape_label(inputs.map(input))
                .or_else(|| shape_label(graph.nodes().last().map(input)))
                .unwrap_or_default();
        }
    }

    /// Counts a graph whose addresses were verified.
    pub fn note_verified(&self) {
        if let Some(events) = self.events {
            events.count_verified();
        }
    }

    /// Counts a plan, or an attempt that failed.
    pub fn count_planning(&mut self, time: Duration) {
        self.statistics.count_planning(time);
    }

    /// Notes a new plan. `by_ggml` has the bytes that ggml's own allocator would have needed, by buffer.
    pub fn note_plan(&mut self, plan: &GraphPlan, by_ggml: Option<&[Bytes]>) {
        let plans = plan.buffers.iter().enumerate().map(|(buffer, plan)| LargestPlan {
            size: plan.placement.size(),
            lower_bound: plan.lower_bound,
            by_ggml: by_ggml.map(|sizes| sizes[buffer]),
        });
        self.statistics.record_plan(plans);
    }

    /// Describes a planned graph for the accounting of the process, if it takes more of a buffer than all before it.
    pub fn account_plan(
        &mut self,
        types: &[BufferType],
        reading: &ReadGraph<'_>,
        requested: &Requested,
        plan: &GraphPlan,
    ) {
        let number = self.number();
        let is_largest = || recorder().takes_graph(number, &plan.sizes().collect::<Vec<_>>());
        if recorder().is_recording() && number > 0 && is_largest() {
            self.accounted = GraphDraft::new(number, types, reading, requested, plan).map(Box::new);
        }
    }

    /// Adds the graph to the accounting, once its chunks are allocated; forgets it if they cannot be.
    pub fn account_chunks(&mut self, chunks: Option<&Chunks>) {
        if let (Some(draft), Some(chunks)) = (self.accounted.take(), chunks) {
            recorder().note_graph(self.runtime, *draft, |address| chunks.at(address).as_ptr().addr() as u64);
        }
    }

    /// Notes that a graph was allocated that needs these bytes of memory which allocators share.
    pub fn note_turn(&self, needed: Bytes) {
        if recorder().is_recording() && self.number() > 0 {
            recorder().note_turn(self.number(), needed);
        }
    }

    /// Notes the bytes held after a plan for `counts` leafs and nodes was selected. Reports the plan and the buffers,
    /// which `states` returns, where either is new.
    pub fn note_buffers(&mut self, held: Bytes, counts: Option<[usize; 2]>, states: impl Fn() -> Vec<BufferState>) {
        let is_new = self.statistics.record_held(held) | (self.statistics.plans != self.reported_plans);
        if let (true, Some(counts)) = (is_new, counts) {
            self.reported_plans = self.statistics.plans;
            self.report_plan(counts, states);
        }
    }

    fn report_plan(&self, [leafs, nodes]: [usize; 2], states: impl Fn() -> Vec<BufferState>) {
        if let Some(events) = self.events {
            let states = states();
            let buffers = states.iter().map(|state| {
                let LargestPlan { size, lower_bound, by_ggml, .. } = self.statistics.largest()[state.index];
                let alone = state.is_shared.then_some(size);
                let planned = PlannedBufferSizes { plan_bytes: state.required.size, lower_bound, by_ggml, alone };
                BufferEvent { id: state.id, name: &state.name, bytes: state.bytes, planned: Some(planned) }
            });
            events.write_plan(&self.statistics, [leafs, nodes], &self.graph, buffers);
        }
        self.runtime.log(Level::Info, || {
            let Statistics { number, plans, planning, .. } = &self.statistics;
            let buffer = |BufferState { name, required, .. }| {
                format!("; {name}: {} bytes, lower bound {}", required.size, required.lower_bound)
            };
            let buffers: String = states().into_iter().map(buffer).collect();
            let made = format!("{plans} {} in {} us", if *plans == 1 { "plan" } else { "plans" }, planning.as_micros());
            format!("allocator {number}: {leafs} leafs and {nodes} nodes are planned ({made}){buffers}\n")
        });
    }

    /// Starts a clock if the log shows how long calls take.
    pub fn clock(&self) -> Option<Instant> {
        self.is_timed.then(Instant::now)
    }

    /// Counts and logs the decision made in `call`.
    pub fn note_decision(
        &self,
        call: &str,
        clock: Option<Instant>,
        graph: GraphRef<'_>,
        decision: &Result<Decision, Refusal>,
    ) {
        if let Some(time) = clock.map(|start| start.elapsed()) {
            self.runtime.log(Level::Debug, || self.decision_line(call, time, graph, decision));
        }
        if let Ok(Decision::Remembered | Decision::Matches | Decision::Fits) = decision {
            self.statistics.count_reuse();
        }
    }

    fn decision_line(
        &self,
        call: &str,
        time: Duration,
        graph: GraphRef<'_>,
        decision: &Result<Decision, Refusal>,
    ) -> String {
        let (number, leafs, nodes) = (self.statistics.number, graph.leafs.len(), graph.nodes.len());
        let decision = match decision {
            Ok(decision) => format!("the graph {}", decision.description()),
            Err(refusal) => format!("refused: {refusal}"),
        };
        format!("allocator {number}: {call} {leafs} leafs and {nodes} nodes: {decision}, {} us\n", time.as_micros())
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        recorder().note_allocator_freed(self.number());
        if let Some(events) = self.events {
            events.write_free(self.statistics.number);
        }
    }
}

/// Returns the report of each buffer.
pub fn buffer_states(types: &BufferTypes, chunks: &Chunks, required: &[Need]) -> Vec<BufferState> {
    let state = |id: usize| {
        let index = types.first_use(id)?;
        let (name, bytes) = (types.list[index].name(), chunks.size(index));
        let is_shared = chunks.are_shared();
        Some(BufferState { id, index, name, bytes, required: required[index], is_shared })
    };
    (0..types.buffer_of_id.len()).filter_map(state).collect()
}
