//! What an allocator reports of its work: to the event report, the log and the statistics.

use std::time::{Duration, Instant};

use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::log::Level;
use crate::ggml::observe::events::{BufferEvent, Events, PlannedBuffer};
use crate::ggml::observe::statistics::{Largest, Statistics};
use crate::ggml::refusal::Refusal;
use crate::graph::GraphPlan;
use crate::placement::Bytes;

/// What was decided for a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It was planned.
    Planned,
    /// A remembered plan was made for it, and it was reserved again.
    Remembered,
    /// Its key matches the plan, or the plan served it last.
    Same,
    /// It differs from the planned graph, and the plan is right for it.
    Fits,
    /// It has no tensors.
    Empty,
}

impl Decision {
    /// For the log.
    fn words(self) -> &'static str {
        match self {
            Self::Planned => "was planned",
            Self::Remembered => "has a plan from earlier",
            Self::Same => "is the planned one",
            Self::Fits => "fits the plan",
            Self::Empty => "is empty",
        }
    }
}

/// What the latest plan requires of a buffer, whether or not it could be allocated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Required {
    /// Bytes of all chunks.
    pub size: Bytes,
    /// The lower bound of the plan.
    pub lower_bound: Bytes,
}

/// A buffer of an allocator, as it is reported.
#[derive(Debug)]
pub struct BufferState {
    /// The first buffer id that stands for it.
    pub id: usize,
    /// Its index among the allocator's buffers.
    pub index: usize,
    /// The name of its type.
    pub name: String,
    /// Bytes held.
    pub bytes: Bytes,
    /// What the latest plan requires.
    pub required: Required,
}

/// What an allocator has done, and where that is reported.
#[derive(Debug)]
pub struct Activity {
    runtime: &'static Runtime,
    events: Option<&'static Events>,
    statistics: Statistics,
    /// The number of plans at the last report.
    reported_plans: u64,
}

impl Activity {
    /// Of an allocator of a program. Its existence is reported.
    pub fn new(runtime: &'static Runtime, events: Option<&'static Events>, buffers: usize) -> Self {
        if let Some(events) = events {
            events.tell_start();
        }
        Self { runtime, events, statistics: Statistics::new(buffers), reported_plans: 0 }
    }

    /// Of an allocator for a single measurement, which is neither reported nor counted.
    pub fn unreported(runtime: &'static Runtime, buffers: usize) -> Self {
        Self { runtime, events: None, statistics: Statistics::uncounted(buffers), reported_plans: 0 }
    }

    /// Returns `true` if plans go to an event report, which compares them with ggml's own allocator.
    pub fn are_events_requested(&self) -> bool {
        self.events.is_some()
    }

    /// Counts an attempt to plan.
    pub fn count_planning(&mut self, time: Duration) {
        self.statistics.has_planned(time);
    }

    /// Notes a new plan. `by_ggml` has the bytes that ggml's own allocator would have needed, by buffer.
    pub fn note_plan(&mut self, plan: &GraphPlan, by_ggml: Option<&[Bytes]>) {
        let plans = plan.buffers.iter().enumerate().map(|(buffer, plan)| Largest {
            size: plan.placement.size(),
            lower_bound: plan.lower_bound,
            by_ggml: by_ggml.map(|sizes| sizes[buffer]),
        });
        self.statistics.has_plan(plans);
    }

    /// Notes the bytes held after a plan for `counts` leafs and nodes was selected. Reports the plan and the buffers, which `states`
    /// returns, where either is new.
    pub fn note_buffers(&mut self, held: Bytes, counts: Option<[usize; 2]>, states: impl Fn() -> Vec<BufferState>) {
        let is_new = self.statistics.has_buffers(held) | (self.statistics.plans != self.reported_plans);
        if let (true, Some(counts)) = (is_new, counts) {
            self.reported_plans = self.statistics.plans;
            self.report_plan(counts, states);
        }
    }

    fn report_plan(&self, [leafs, nodes]: [usize; 2], states: impl Fn() -> Vec<BufferState>) {
        if let Some(events) = self.events {
            let states = states();
            let buffers = states.iter().map(|state| {
                let Largest { lower_bound, by_ggml, .. } = self.statistics.largest()[state.index];
                let planned = PlannedBuffer { plan_bytes: state.required.size, lower_bound, by_ggml };
                BufferEvent { id: state.id, name: &state.name, bytes: state.bytes, planned: Some(planned) }
            });
            events.tell_plan(&self.statistics, [leafs, nodes], buffers);
        }
        self.runtime.log(Level::Info, || {
            let Statistics { number, plans, planning, .. } = &self.statistics;
            let buffer = |BufferState { name, required, .. }| {
                format!("; {name}: {} bytes, lower bound {}", required.size, required.lower_bound)
            };
            let buffers: String = states().into_iter().map(buffer).collect();
            let made = format!("{plans} plans in {} us", planning.as_micros());
            format!("allocator {number}: {leafs} leafs and {nodes} nodes are planned ({made}){buffers}\n")
        });
    }

    /// Starts a clock, if the log shows how long calls take.
    pub fn clock(&self) -> Option<Instant> {
        self.runtime.is_heard(Level::Debug).then(Instant::now)
    }

    /// Counts and logs what was decided in `call`.
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
        if let Ok(Decision::Remembered | Decision::Same | Decision::Fits) = decision {
            self.statistics.has_served_again();
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
            Ok(decision) => format!("the graph {}", decision.words()),
            Err(refusal) => format!("refused: {refusal}"),
        };
        format!("allocator {number}: {call} {leafs} leafs and {nodes} nodes: {decision}, {} us\n", time.as_micros())
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        if let Some(events) = self.events {
            events.tell_free(self.statistics.number);
        }
    }
}
