//! Frees outputs and retained tensors early, and leaves out unused tensors.

use crate::graph::{Effect, Flags, GraphEdit, Op, Retention, Tensor, TensorId};

use super::super::case::Case;
use super::super::change::Change;
use super::super::uses::{Kept, NodeUses};
use super::later::with_ancestors;
use super::tried::{Candidate, Tried, try_change};

/// Tries to free an output after its last use, for one that no step from the peak on uses.
pub fn try_no_output(case: &Case<'_>, candidate: Candidate) -> Option<Tried> {
    let Candidate { tensor, peak, .. } = candidate;
    let graph = &case.planned.snapshot.graph;
    let needed_until = case.uses.needed_until(tensor);
    if case.uses.kept[tensor as usize] != Some(Kept::Output) || needed_until >= peak {
        return None;
    }
    let mut edit = case.new_edit()?;
    for &id in case.uses.views[tensor as usize].iter().chain([&tensor]) {
        edit.tensor_mut(id).flags.0 &= !Flags::OUTPUT.0;
    }
    let next = *graph.nodes().get(needed_until as usize + 1)?;
    list_read(case, &mut edit, tensor, next);
    let change = Change::NoOutput {
        tensor: case.named(output(case, tensor)),
        bytes: candidate.bytes,
        needed_until: case.node(needed_until),
    };
    try_change(case, change, Some(tensor), edit)
}

/// Lists a read of a tensor and its views by the program right before `node`, as a node that needs no memory.
fn list_read(case: &Case<'_>, edit: &mut GraphEdit, tensor: TensorId, node: TensorId) {
    let read = edit.copy(tensor);
    *edit.tensor_mut(read) = Tensor { op: Op::Unknown, external: true, ..Tensor::new() };
    edit.set_sources(read, &[case.uses.views[tensor as usize].as_slice(), &[tensor]].concat());
    edit.list_before(node, &[read]);
}

/// Returns the tensor that is flagged as an output: the owner or one of its views.
fn output(case: &Case<'_>, tensor: TensorId) -> TensorId {
    let graph = &case.planned.snapshot.graph;
    let family = [tensor].into_iter().chain(case.uses.views[tensor as usize].iter().copied());
    family.into_iter().find(|&id| graph.tensor(id).flags.has(Flags::OUTPUT)).unwrap_or(tensor)
}

/// Tries to leave out a tensor that is not an output, and that is used only by nodes that write to it. The last node is
/// the result of the graph.
pub fn try_leave_out(case: &Case<'_>, candidate: Candidate) -> Option<Tried> {
    let Candidate { tensor, .. } = candidate;
    let graph = &case.planned.snapshot.graph;
    let family: Vec<TensorId> = [&[tensor], case.uses.views[tensor as usize].as_slice()].concat();
    let mut users = case.uses.accesses[tensor as usize].iter().map(|&step| graph.nodes()[step as usize]);
    let only_writes =
        |&id: &TensorId| matches!(case.uses.effects[id as usize], Effect::Result | Effect::View | Effect::Nothing);
    let is_unused = case.uses.kept[tensor as usize] == Some(Kept::Unused) && users.all(|node| family.contains(&node));
    let is_result = graph.nodes().last().is_some_and(|last| family.contains(last));
    if is_result || !is_unused || !family.iter().all(only_writes) {
        return None;
    }
    let group = with_ancestors(case, &family);
    let with = group.iter().filter(|&&id| id != tensor && case.uses.step[id as usize].is_some()).count();
    let mut edit = case.new_edit()?;
    edit.unlist(&group);
    let is_skipped = case.uses.step[tensor as usize].is_some() && NodeUses::is_skipped(graph, tensor);
    let change = Change::LeaveOut { tensor: case.named(tensor), bytes: candidate.bytes, with, is_skipped };
    try_change(case, change, Some(tensor), edit)
}

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
