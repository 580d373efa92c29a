//! Retains tensors for a shorter time, or none at all.

use crate::graph::{Retention, TensorId};

use super::super::case::Case;
use super::super::change::Change;
use super::super::uses::Kept;
use super::candidate::Candidate;
use super::outputs::list_read;
use super::tried::{Tried, try_change};

/// Tries to free a retained tensor after its last use, for one that no step from the peak on uses.
pub fn try_release(case: &Case<'_>, candidate: Candidate) -> Option<Tried> {
    let Candidate { tensor, peak, .. } = candidate;
    let graph = &case.planned.snapshot.graph;
    let needed_until = case.uses.needed_until(tensor);
    let until = case.uses.retained_until[tensor as usize];
    let is_retained = match case.uses.kept[tensor as usize] {
        Some(kept) => kept == Kept::Retained,
        None => until.is_some_and(|until| until >= peak),
    };
    if !is_retained || needed_until >= peak {
        return None;
    }
    let family: Vec<TensorId> = [&[tensor], case.uses.views[tensor as usize].as_slice()].concat();
    let mut edit = case.new_edit()?;
    edit.retention = edit.retention.without(&family);
    let next = *graph.nodes().get(needed_until as usize + 1)?;
    list_read(case, &mut edit, tensor, next);
    let retained = family.iter().copied().find(|&id| graph.retention().of(id).is_some()).unwrap_or(tensor);
    let change =
        Change::Release { tensor: case.named(retained), bytes: candidate.bytes, needed_until: case.node(needed_until) };
    try_change(case, change, Some(tensor), edit)
}

/// Tries to retain none of several tensors.
pub fn try_release_all(case: &Case<'_>) -> Option<Tried> {
    let tensors = case.planned.snapshot.graph.retention().list().len();
    if tensors < 2 {
        return None;
    }
    let mut edit = case.new_edit()?;
    edit.retention = Retention::default();
    try_change(case, Change::ReleaseAll { tensors }, None, edit)
}
