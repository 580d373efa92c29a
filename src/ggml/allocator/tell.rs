//! What an allocator tells of its work: to the report, to the log, and to whoever asks for statistics.

use std::time::{Duration, Instant};

use crate::ggml::buffers::BufferType;
use crate::ggml::events::{BufferEvent, PlannedBuffer};
use crate::ggml::log::Level;
use crate::ggml::read::{Reading, Requested};
use crate::ggml::statistics::{Largest, Statistics};
use crate::ggml::tensor::GraphRef;
use crate::graph::GraphPlan;

use super::{Allocator, Refusal, Wanted};

/// What was done with a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It was planned.
    Planned,
    /// It has a plan from earlier.
    Remembered,
    /// It is what the plan was made for, or served last.
    Same,
    /// It differs from what the plan was made for, and the plan is right for it.
    Fits,
    /// There is nothing in it.
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

impl Allocator {
    /// Counts a new plan.
    pub(super) fn note_plan(&mut self, reading: &Reading<'_>, requested: &Requested, plan: &GraphPlan) {
        let by_ggml = (self.runtime.events.as_ref())
            .and_then(|_| self.subject(reading, &requested.of_all(&reading.graph)).sizes_by_ggml());
        let plans = plan.buffers.iter().enumerate().map(|(buffer, plan)| Largest {
            size: plan.placement.size(),
            lower_bound: plan.lower_bound,
            by_ggml: by_ggml.as_ref().map(|sizes| sizes[buffer]),
        });
        self.statistics.has_plan(plans);
    }

    /// Tells of the latest plan and of the buffers.
    pub(super) fn tell_plan(&self, [leafs, nodes]: [usize; 2]) {
        if let Some(events) = self.runtime.events.as_ref().filter(|_| self.statistics.is_counted()) {
            let names: Vec<String> = self.types.iter().map(|buffer_type| buffer_type.name()).collect();
            events.tell_plan(&self.statistics, [leafs, nodes], self.buffer_events(&names));
        }
        self.runtime.log(Level::Info, || {
            let Statistics { number, plans, planning, .. } = &self.statistics;
            let buffer = |(wanted, buffer_type): (&Wanted, &BufferType)| {
                format!("; {}: {} bytes, lower bound {}", buffer_type.name(), wanted.size, wanted.lower_bound)
            };
            let buffers: String = self.wanted.iter().zip(&self.types).map(buffer).collect();
            let made = format!("{plans} plans in {} us", planning.as_micros());
            format!("allocator {number}: {leafs} leafs and {nodes} nodes are planned ({made}){buffers}\n")
        });
    }

    fn buffer_events<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = BufferEvent<'a>> {
        let first_uses = (0..self.buffer_of.len()).filter_map(|id| Some((id, self.first_use(id)?)));
        first_uses.map(|(id, buffer)| {
            let Largest { lower_bound, by_ggml, .. } = self.statistics.largest()[buffer];
            let planned = PlannedBuffer { plan_bytes: self.wanted[buffer].size, lower_bound, by_ggml };
            BufferEvent { id, name: &names[buffer], bytes: self.buffer_size(id), planned: Some(planned) }
        })
    }

    /// Runs where somebody wants to know how long calls take.
    pub(super) fn clock(&self) -> Option<Instant> {
        self.runtime.is_heard(Level::Debug).then(Instant::now)
    }

    /// Counts and tells what was decided.
    pub(super) fn has_decided(
        &self,
        call: &str,
        clock: Option<Instant>,
        graph: GraphRef<'_>,
        done: Result<Decision, Refusal>,
    ) -> Result<(), Refusal> {
        if let Some(time) = clock.map(|start| start.elapsed()) {
            self.runtime.log(Level::Debug, || self.words(call, time, graph, &done));
        }
        if let Ok(Decision::Remembered | Decision::Same | Decision::Fits) = done {
            self.statistics.has_served_again();
        }
        done.map(|_| ())
    }

    fn words(&self, call: &str, time: Duration, graph: GraphRef<'_>, done: &Result<Decision, Refusal>) -> String {
        let (number, leafs, nodes) = (self.statistics.number, graph.leafs.len(), graph.nodes.len());
        let decision = match done {
            Ok(decision) => format!("the graph {}", decision.words()),
            Err(refusal) => format!("refused: {refusal}"),
        };
        format!("allocator {number}: {call} {leafs} leafs and {nodes} nodes: {decision}, {} us\n", time.as_micros())
    }
}

impl Drop for Allocator {
    fn drop(&mut self) {
        if let Some(events) = self.runtime.events.as_ref().filter(|_| self.statistics.is_counted()) {
            events.tell_free(self.statistics.number);
        }
    }
}
