//! The plan of all parts.

use std::ops::Range;

use crate::graph::BufferIndex;
use crate::graph::{PlanError, TensorId};
use crate::placement::{Bytes, Step};

use super::owners::Owner;
use super::part::{PartPlan, PartPlanner};

/// A tensor that several parts touch, in its own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossingTensor {
    /// The tensor, which is not a view.
    pub tensor: TensorId,
    /// Its buffer.
    pub buffer: BufferIndex,
    /// Its bytes, padded.
    pub size: Bytes,
    /// The part that computes it.
    pub first_part: usize,
    /// The last part that uses it.
    pub last_part: usize,
}

/// The plan of a stepwise computation.
#[derive(Clone, Debug)]
pub struct StepwisePlan {
    /// The tensors whose memory is kept for the whole run: inputs, outputs, and results that no node uses.
    pub kept: Vec<Owner>,
    /// The tensors that cross cuts, in the order of their tensors.
    pub crossing: Vec<CrossingTensor>,
    /// The parts in the order in which they run.
    pub parts: Vec<PartPlan>,
}

impl StepwisePlan {
    /// Returns the bytes kept for the whole run.
    pub fn kept_bytes(&self) -> Bytes {
        self.kept.iter().map(|owner| owner.size).fold(0, Bytes::saturating_add)
    }

    /// Returns the most bytes that are held at the same time.
    pub fn peak(&self) -> Bytes {
        self.kept_bytes().saturating_add(self.parts.iter().map(PartPlan::total).max().unwrap_or(0))
    }
}

/// Plans `parts`, which are all nodes of the graph in order.
///
/// # Errors
/// [`PlanError`] when sizes overflow.
pub fn plan_parts(planner: &mut PartPlanner<'_>, parts: &[Range<Step>]) -> Result<StepwisePlan, PlanError> {
    planner.check_total()?;
    let planned = parts.iter().map(|part| planner.plan(part)).collect::<Result<Vec<_>, _>>()?;
    let part_of = |step: Step| parts.partition_point(|part| part.end <= step);
    let crossing = |&Owner { tensor, buffer, size, first, last, is_kept }: &Owner| {
        let (first_part, last_part) = (part_of(first), part_of(last));
        let crosses = !is_kept && first_part < last_part;
        crosses.then_some(CrossingTensor { tensor, buffer, size, first_part, last_part })
    };
    Ok(StepwisePlan {
        kept: planner.owners().iter().filter(|owner| owner.is_kept).copied().collect(),
        crossing: planner.owners().iter().filter_map(crossing).collect(),
        parts: planned,
    })
}
