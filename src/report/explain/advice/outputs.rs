//! What nobody in the graph needs, yet is kept.

use crate::graph::order::Effect;
use crate::graph::{Flags, Operation, Tensor, TensorId};

use super::super::case::Case;
use super::super::uses::Uses;
use super::super::{Change, Kept};
use super::later::with_ancestors;
use super::{Suspect, Tried, try_change};

/// Of an output that no step after the peak needs: whoever wants it reads it before.
pub fn try_no_output(case: &Case<'_>, suspect: Suspect) -> Option<Tried> {
    let Suspect { tensor, peak, .. } = suspect;
    let graph = &case.subject.snapshot.graph;
    let made = case.uses.made(tensor).unwrap_or(0);
    let needed_until = case.uses.last(tensor).map_or(made, |last| last.max(made));
    if case.uses.kept[tensor as usize] != Some(Kept::Output) || needed_until >= peak {
        return None;
    }
    let mut draft = case.new_draft()?;
    for &id in case.uses.views[tensor as usize].iter().chain([&tensor]) {
        draft.tensor_mut(id).tensor.flags.0 &= !Flags::OUTPUT.0;
    }
    // Somebody reads it for the last time: a node that needs no memory.
    let reader = draft.add_like(tensor);
    let drafted = draft.tensor_mut(reader);
    drafted.tensor = Tensor { operation: Operation::Other, external: true, ..Tensor::new() };
    drafted.sources = case.uses.views[tensor as usize].iter().copied().chain([tensor]).collect();
    draft.list_before(*graph.nodes().get(needed_until as usize + 1)?, &[reader]);
    let change = Change::NoOutput {
        tensor: case.named(output(case, tensor)),
        bytes: suspect.bytes,
        needed_until: case.node(needed_until),
    };
    try_change(case, change, Some(tensor), &draft)
}

/// Who of a family is flagged.
fn output(case: &Case<'_>, tensor: TensorId) -> TensorId {
    let graph = &case.subject.snapshot.graph;
    let family = [tensor].into_iter().chain(case.uses.views[tensor as usize].iter().copied());
    family.into_iter().find(|&id| graph.tensor(id).flags.has(Flags::OUTPUT)).unwrap_or(tensor)
}

/// Of a tensor that is no output, and that nobody reads but those who write into it. The last node is the result of the
/// graph.
pub fn try_leave_out(case: &Case<'_>, suspect: Suspect) -> Option<Tried> {
    let Suspect { tensor, .. } = suspect;
    let graph = &case.subject.snapshot.graph;
    let family: Vec<TensorId> = [&[tensor], case.uses.views[tensor as usize].as_slice()].concat();
    let mut readers = case.uses.touched[tensor as usize].iter().map(|&step| graph.nodes()[step as usize]);
    let only_writes =
        |&id: &TensorId| matches!(case.uses.effects[id as usize], Effect::Result | Effect::View | Effect::Nothing);
    let is_unread = case.uses.kept[tensor as usize] == Some(Kept::Unread) && readers.all(|node| family.contains(&node));
    let is_result = graph.nodes().last().is_some_and(|last| family.contains(last));
    if is_result || !is_unread || !family.iter().all(only_writes) {
        return None;
    }
    let group = with_ancestors(case, &family);
    let with = group.iter().filter(|&&id| id != tensor && case.uses.step[id as usize].is_some()).count();
    let mut draft = case.new_draft()?;
    draft.unlist(&group);
    let is_passed_over = case.uses.step[tensor as usize].is_some() && Uses::is_passed_over(graph, tensor);
    let change = Change::LeaveOut { tensor: case.named(tensor), bytes: suspect.bytes, with, is_passed_over };
    try_change(case, change, Some(tensor), &draft)
}
