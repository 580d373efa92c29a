//! The cached plans of an allocator, and how it recognizes the graphs that they serve.
//!
//! A graph is recognized by its [`key`] without reading it, or by [`fit`], which compares it tensor by tensor. The
//! [`cached_plan`] holds both the planned graph and the addresses, [`assignments`] writes those into tensors.

pub mod key;
pub mod assignments;
pub mod cached_plan;
pub mod fit;
#[cfg(test)]
mod tests;

use std::cell::LazyCell;

use crate::ggml::allocator::cache::Cache;
use crate::ggml::allocator::chunks::Chunks;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::read::Requested;
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::retention::RetainedAt;
use crate::graph::BufferPlan;
use cached_plan::CachedPlan;
use fit::{FittedGraph, PlanWithRoom};
use key::Sample;

/// How many plans, the latest of either kind, a graph that was not planned is compared with.
const MOST_COMPARED: usize = 4;

/// Whether a plan fits a graph.
#[derive(Debug)]
pub enum Fit<'g> {
    /// One does, and is selected.
    Selected(FittedGraph<'g>),
    /// None does, but one for a much larger graph has room, and may fit.
    OnlyLarger {
        /// Whether the fastest strategies found the placements of that plan.
        is_from_peak: bool,
    },
    /// None fits.
    None,
}

/// Which plans may be selected for a graph that they were not made for.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// Whether one that was made for a much larger graph may.
    pub may_be_larger: bool,
    /// The chunks that have to suffice for it, if they are not allocated for it.
    pub held: Option<&'a Chunks>,
}

/// The cached plans, the one in use first. Empty when the latest plan could not be made or its buffers not be
/// allocated.
pub type PlanCache = Cache<CachedPlan>;

impl PlanCache {
    /// Selects the plan that was made for `graph`, `requested` and `retained`. `fingerprint` computes that of `graph`.
    /// Returns `false` if there is none.
    pub fn select_requested(
        &mut self,
        fingerprint: impl FnOnce() -> Fingerprint,
        graph: GraphRef<'_>,
        requested: &Requested,
        retained: &[RetainedAt],
    ) -> bool {
        let fingerprint = LazyCell::new(fingerprint);
        let sample = Sample::of(graph);
        let matches = |plan: &CachedPlan| {
            plan.requested == *requested
                && plan.retained == retained
                && plan.is_made_for(graph, sample, || *fingerprint)
        };
        self.select(matches).map(|plan| plan.is_expendable = false).is_some()
    }

    /// Selects the plan whose key matches `graph` and that keeps the tensors `retained`, or that served `graph` lately.
    /// `fingerprint` computes that of `graph`. Returns `false` if there is none.
    ///
    /// Where graphs take turns, they are recognized by fingerprints: the keys of all plans do not fit in the caches of
    /// a processor.
    pub fn select_known(
        &mut self,
        fingerprint: impl FnOnce() -> Fingerprint,
        graph: GraphRef<'_>,
        retained: &[RetainedAt],
    ) -> bool {
        let fingerprint = LazyCell::new(fingerprint);
        let sample = Sample::of(graph);
        let is_made_for = |plan: &CachedPlan| plan.is_made_for(graph, sample, || *fingerprint);
        let has_served = |plan: &CachedPlan| plan.has_served(|| *fingerprint);
        if self.current().is_some_and(|plan| is_made_for(plan) && plan.retained == retained) {
            return true;
        }
        let position = |accept: &dyn Fn(&CachedPlan) -> bool| {
            self.entries().iter().position(|plan| accept(plan) && self.qualifies(plan, retained))
        };
        let served = position(&has_served);
        let Some(index) = served.or_else(|| position(&is_made_for)) else { return false };
        let plan = self.select_at(index);
        if served.is_none() {
            plan.served.add(*fingerprint);
        }
        true
    }

    /// Selects a plan that fits `graph`, compared tensor by tensor, and that keeps the tensors `retained`, within `limits`.
    pub fn select_fitting<'g>(
        &mut self,
        runtime: &Runtime,
        types: &[BufferType],
        graph: GraphRef<'g>,
        retained: &[RetainedAt],
        limits: Limits<'_>,
    ) -> Fit<'g> {
        let mut larger = None;
        let mut found = None;
        for (index, plan) in self.compared(retained) {
            if limits.held.is_some_and(|held| !held.suffice(plan.buffers())) {
                continue;
            }
            let Some(candidate) = PlanWithRoom::new(plan, types, graph) else { continue };
            if candidate.is_much_larger() && !limits.may_be_larger {
                larger.get_or_insert_with(|| plan.buffers().iter().all(BufferPlan::is_from_peak));
            } else if let Some(fitted) = candidate.fit(runtime) {
                found = Some((index, fitted));
                break;
            }
        }
        match (found, larger) {
            (Some((index, fitted)), _) => {
                self.select_at(index);
                Fit::Selected(fitted)
            }
            (None, Some(is_from_peak)) => Fit::OnlyLarger { is_from_peak },
            (None, None) => Fit::None,
        }
    }

    /// Returns the plans for the buffers that were requested for the plan in use.
    pub fn requested_as_current(&self) -> impl Iterator<Item = &CachedPlan> {
        self.entries().iter().filter(|plan| self.current().is_some_and(|current| plan.requested == current.requested))
    }

    /// Returns the plans that qualify, with their positions.
    fn candidates(&self, retained: &[RetainedAt]) -> impl Iterator<Item = (usize, &CachedPlan)> {
        self.entries().iter().enumerate().filter(|(_, plan)| self.qualifies(plan, retained))
    }

    /// Returns `true` if `plan` keeps the tensors `retained`. With several buffers only plans for the buffers requested
    /// last qualify, since a call that allocates a graph does not pass ids, and only those that may follow the plan in
    /// use.
    fn qualifies(&self, plan: &CachedPlan, retained: &[RetainedAt]) -> bool {
        let follows =
            |current: &CachedPlan| plan.requested == current.requested && current.may_be_followed_by_plan(plan);
        self.current().is_some_and(follows) && plan.retained == retained
    }

    /// Returns the candidates that a graph is compared with, those that are not expendable first.
    fn compared(&self, retained: &[RetainedAt]) -> impl Iterator<Item = (usize, &CachedPlan)> {
        let of_kind = |is_expendable: bool| {
            let is_of_kind = move |(_, plan): &(usize, &CachedPlan)| plan.is_expendable == is_expendable;
            self.candidates(retained).filter(is_of_kind).take(MOST_COMPARED)
        };
        of_kind(false).chain(of_kind(true))
    }
}
