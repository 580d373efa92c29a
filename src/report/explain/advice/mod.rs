//! Finds the single changes that lower a peak most. Each is made in a copy of the graph, which is then planned.
//!
//! [`tried`] holds the tensors at a peak, and a change with the bytes that it saves; [`later`], [`again`], [`outputs`] and
//! [`copies`] change how one tensor is handled, [`settings`] how the whole graph is planned.

mod tried;
mod again;
mod copies;
mod later;
mod outputs;
mod settings;

use std::cmp::Reverse;

use crate::placement::{Bytes, Step};

use super::case::Case;
use super::explanation::{Advice, Limit};
use tried::{Candidate, candidates};

pub use settings::for_all_buffers;
pub use tried::Tried;

/// Changes that save less than this fraction of the peak are not reported.
const MIN_FRACTION: Bytes = 1000;

/// At most this many changes are reported.
const MAX_ADVICE: usize = 5;

/// Returns the changes that lower the peak of a buffer. If there is none, returns the one that comes closest, and the step
/// that prevents it.
pub fn for_buffer(case: &Case<'_>, buffer: usize, peak: Step, everywhere: &[Tried]) -> (Vec<Advice>, Option<Limit>) {
    let tried: Vec<Tried> =
        candidates(case, buffer, peak).into_iter().flat_map(|candidate| try_all(case, candidate)).collect();
    let all = || everywhere.iter().chain(&tried).filter(|tried| tried.raises_no_other(case, buffer));
    let mut advice: Vec<Advice> = all().filter_map(|tried| advice(case, tried, buffer)).collect();
    advice.sort_by_key(|advice| Reverse(advice.saves));
    advice.truncate(MAX_ADVICE);
    let limit = if advice.is_empty() { limit(case, all(), buffer, peak) } else { None };
    (advice, limit)
}

fn try_all(case: &Case<'_>, candidate: Candidate) -> Vec<Tried> {
    // Finding out whether a change is valid is work, too.
    if !case.can_try() {
        return Vec::new();
    }
    let mut tried = later::try_later(case, candidate);
    tried.extend(again::try_again(case, candidate));
    tried.extend(outputs::try_no_output(case, candidate));
    tried.extend(outputs::try_release(case, candidate));
    tried.extend(outputs::try_leave_out(case, candidate));
    tried.extend(copies::try_no_copy(case, candidate));
    tried
}

fn advice(case: &Case<'_>, tried: &Tried, buffer: usize) -> Option<Advice> {
    let lower_bound = tried.trial.bounds[buffer];
    let given = case.bound(buffer);
    let saves = given.checked_sub(lower_bound).filter(|&saves| saves > 0 && saves >= given / MIN_FRACTION)?;
    Some(Advice { saves, lower_bound, peak: case.peak_of(&tried.trial, buffer), change: tried.change.clone() })
}

/// Returns the change that frees most at the peak, though another step then needs as much.
fn limit<'t>(case: &Case<'_>, tried: impl Iterator<Item = &'t Tried>, buffer: usize, peak: Step) -> Option<Limit> {
    let &node = case.planned.snapshot.graph.nodes().get(peak as usize)?;
    let given = case.bound(buffer);
    let freed_at = |tried: &Tried, node| Some(given.saturating_sub(tried.trial.load_at(buffer, node)?));
    let is_enough = |&frees: &Bytes| frees > 0 && frees >= given / MIN_FRACTION;
    // A change that only moves the peak to the new def of its tensor explains nothing.
    let moves_peak =
        |tried: &Tried| tried.tensor.and_then(|tensor| freed_at(tried, tensor)).is_some_and(|it| !is_enough(&it));
    let found = tried.filter(|tried| !moves_peak(tried));
    let found = found.filter_map(|tried| Some((freed_at(tried, node).filter(is_enough)?, tried)));
    let (frees, tried) = found.min_by_key(|(frees, tried)| (tried.trial.bounds[buffer], Reverse(*frees)))?;
    let (peak, lower_bound) = (case.peak_of(&tried.trial, buffer), tried.trial.bounds[buffer]);
    Some(Limit { frees, peak, lower_bound, change: tried.change.clone() })
}
