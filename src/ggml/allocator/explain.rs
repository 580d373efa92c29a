//! Why a graph needs the memory that the allocator would plan for it.

use crate::graph::snapshot::Snapshot;
use crate::graph::{PlanError, RuleSetting, Rules, TensorId};
use crate::report::explain::{DEFAULT_TRIALS, Explanation, Subject, explain};

use super::super::measure::NotMeasured;
use super::super::memory::same_memory;
use super::super::read::{Requested, read};
use super::super::tensor::GraphRef;
use super::Allocator;

impl Allocator {
    /// Explains the plan that would be made for `graph`, as [`Allocator::snapshot`] sees it. Neither the graph nor the
    /// allocator is touched.
    ///
    /// # Errors
    /// Why a reservation of the graph would be refused whatever memory there is.
    pub fn explain(&self, graph: GraphRef<'_>) -> Result<Explanation, NotMeasured> {
        self.expect_acceptable(graph, None, None)?;
        let mut snapshot = self.snapshot(graph, None, None);
        // Who asks knows which graph it is.
        snapshot.label.clear();
        let plan = snapshot.plan_as_recorded().map_err(|PlanError::TooLarge { buffer, bytes }| {
            NotMeasured::TooLarge { buffer: self.types[buffer as usize].name(), size: bytes }
        })?;
        let allowed: Vec<Rules> =
            self.types.iter().map(|buffer_type| buffer_type.rules(&RuleSetting::default())).collect();
        let mut explanation = explain(Subject {
            snapshot: &snapshot,
            buffers: &snapshot.recorded_buffers(),
            allowed: &allowed,
            same_memory: &self.shared_memory(graph, &snapshot),
            plan: &plan,
            trials: DEFAULT_TRIALS,
        });
        for (index, buffer) in explanation.buffers.iter_mut().enumerate() {
            let id = self.buffer_of.iter().position(|&other| other as usize == index);
            buffer.id = id.unwrap_or(index);
        }
        Ok(explanation)
    }

    /// By tensor: the first of those whose memory overlaps with its own. What lies in the allocator's own buffers will lie
    /// elsewhere.
    fn shared_memory(&self, graph: GraphRef<'_>, snapshot: &Snapshot) -> Vec<TensorId> {
        let same = same_memory(self.runtime, &read(self.runtime, &[], graph, &Requested::default()));
        let own = |(id, same): (TensorId, TensorId)| if snapshot.graph.tensor(id).external { same } else { id };
        (0..).zip(same).map(own).collect()
    }
}
