//! Plans that an allocator remembers, and how it recognizes the graphs that they serve.
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

use crate::ggml::allocator::chunks::Chunks;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::read::Requested;
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::read::workspace::Workspace;
use crate::ggml::retention::RetainedAt;
use crate::graph::BufferPlan;
use cached_plan::CachedPlan;
use fit::{FittedGraph, PlanWithRoom};
use key::Sample;

/// An allocator remembers at least this many plans: programs alternate between prompt, token and embedding, or between
/// the shapes of their inputs.
const LEAST_PLANS: usize = 16;

/// It remembers more plans, up to [`MOST_PLANS`], while all of them together take less memory.
const MOST_BYTES: usize = 4 << 20;

/// Each graph that is new is compared with the samples of all.
const MOST_PLANS: usize = 64;

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
#[derive(Debug)]
pub struct PlanCache {
    plans: Vec<CachedPlan>,
}

impl PlanCache {
    /// Remembers nothing.
    pub fn none() -> Self {
        Self { plans: Vec::with_capacity(LEAST_PLANS) }
    }

    /// Drops all plans.
    pub fn clear(&mut self, workspace: &mut Workspace) {
        self.plans.drain(..).for_each(|plan| plan.leave_to(workspace));
    }

    /// Returns `true` if no plan is remembered.
    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    /// The plan in use.
    pub fn current(&self) -> Option<&CachedPlan> {
        self.plans.first()
    }

    /// The plan in use.
    pub fn current_mut(&mut self) -> Option<&mut CachedPlan> {
        self.plans.first_mut()
    }

    /// Returns `true` if another plan can be remembered only by dropping one.
    fn is_full(&self) -> bool {
        let bytes = || self.plans.iter().map(CachedPlan::bytes).sum::<usize>();
        self.plans.len() >= MOST_PLANS || (self.plans.len() >= LEAST_PLANS && bytes() >= MOST_BYTES)
    }

    /// Returns `true` if an expendable plan can be remembered without dropping one that is not.
    pub fn have_room_for_expendable(&self) -> bool {
        !self.is_full() || self.plans.iter().any(|plan| plan.is_expendable)
    }

    /// Drops plans until there is room for another: the least recently used ones, of those that are expendable while
    /// there are any.
    pub fn make_room(&mut self, workspace: &mut Workspace) {
        while self.is_full() {
            let expendable = self.plans.iter().rposition(|plan| plan.is_expendable);
            self.plans.remove(expendable.unwrap_or(self.plans.len() - 1)).leave_to(workspace);
        }
    }

    /// Lets the plan in use be dropped before others.
    pub fn make_current_expendable(&mut self) {
        if let Some(plan) = self.plans.first_mut() {
            plan.is_expendable = true;
        }
    }

    /// Puts the plan that was remembered last after the one that is in use: a reservation of its graph finds it.
    pub fn keep_for_reservation(&mut self) {
        if self.plans.len() > 1 {
            self.plans.swap(0, 1);
        }
    }

    /// Remembers a plan, which is then in use.
    pub fn add(&mut self, plan: CachedPlan) {
        self.plans.insert(0, plan);
    }

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
        let Some(found) = self.plans.iter().position(matches) else { return false };
        self.plans[..=found].rotate_right(1);
        self.plans[0].is_expendable = false;
        true
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
            self.plans.iter().position(|plan| accept(plan) && self.qualifies(plan, retained))
        };
        let served = position(&has_served);
        let Some(index) = served.or_else(|| position(&is_made_for)) else { return false };
        self.plans[..=index].rotate_right(1);
        if served.is_none() {
            self.plans[0].note_recognized(*fingerprint);
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
                self.plans[..=index].rotate_right(1);
                Fit::Selected(fitted)
            }
            (None, Some(is_from_peak)) => Fit::OnlyLarger { is_from_peak },
            (None, None) => Fit::None,
        }
    }

    /// Returns the plans for the buffers that were requested for the plan in use.
    pub fn requested_as_current(&self) -> impl Iterator<Item = &CachedPlan> {
        self.plans.iter().filter(|plan| self.current().is_some_and(|current| plan.requested == current.requested))
    }

    /// Returns the plans that qualify, with their positions.
    fn candidates(&self, retained: &[RetainedAt]) -> impl Iterator<Item = (usize, &CachedPlan)> {
        self.plans.iter().enumerate().filter(|(_, plan)| self.qualifies(plan, retained))
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
