//! Nobody reads something for long: let it go, and make it again.

use std::collections::HashMap;

use crate::graph::order::Effect;
use crate::graph::{Flags, Operation, TensorId, View};
use crate::placement::Step;

use super::super::Change;
use super::super::case::Case;
use super::super::draft::Draft;
use super::{Suspect, Tried, try_change};

/// Of a tensor that is read before the peak and after it, but not in it.
pub fn try_again(case: &Case<'_>, suspect: Suspect) -> Option<Tried> {
    let Suspect { tensor, peak, .. } = suspect;
    let touched = &case.uses.touched[tensor as usize];
    let after = touched.partition_point(|&step| step < peak);
    let &next_read = touched.get(after).filter(|&&step| step > peak)?;
    let &last_read = touched[..after].last()?;
    let is_computed = case.uses.made(tensor).is_some();
    if !is_free(case, tensor) || (is_computed && !can_be_computed(case, tensor, next_read)) {
        return None;
    }
    let draft = made_again(case, tensor, next_read, is_computed)?;
    let change = Change::Again {
        tensor: case.named(tensor),
        bytes: suspect.bytes,
        is_computed,
        last_read: case.node(last_read),
        next_read: case.node(next_read),
    };
    try_change(case, change, Some(tensor), &draft)
}

/// Does nobody but its own node write it, or expect something of it by itself?
fn is_free(case: &Case<'_>, tensor: TensorId) -> bool {
    let graph = &case.subject.snapshot.graph;
    let looks = |&view: &TensorId| case.uses.only_looks(view) && !graph.tensor(view).flags.has(Flags::OUTPUT);
    case.uses.kept[tensor as usize].is_none() && case.uses.views[tensor as usize].iter().all(looks)
}

/// Does computing it at that step give the same once more?
fn can_be_computed(case: &Case<'_>, tensor: TensorId, step: Step) -> bool {
    let graph = &case.subject.snapshot.graph;
    let made = case.uses.step[tensor as usize];
    let roots: Vec<TensorId> = graph.sources(tensor).iter().map(|&source| graph.root(source)).collect();
    let is_pure = case.uses.effects[tensor as usize] == Effect::Result && !roots.contains(&tensor);
    made.is_some_and(|made| is_pure && !is_written(case, &roots, made, step))
}

/// Does a node between two steps write memory of these owners, or anything?
pub fn is_written(case: &Case<'_>, roots: &[TensorId], from: Step, to: Step) -> bool {
    let graph = &case.subject.snapshot.graph;
    let memory = |id: TensorId| case.subject.same_memory[graph.root(id) as usize];
    let is_one = |id: TensorId| roots.iter().any(|&root| memory(root) == memory(id));
    let writes = |&node: &TensorId| match case.uses.effects[node as usize] {
        Effect::Anything => true,
        Effect::Sources => is_one(node) || graph.sources(node).iter().any(|&source| is_one(source)),
        Effect::Result => is_one(node),
        Effect::View | Effect::Nothing => false,
    };
    graph.nodes()[from as usize + 1..to as usize].iter().any(writes)
}

/// A twin right before a step, for that step and those after it.
fn made_again(case: &Case<'_>, tensor: TensorId, step: Step, is_computed: bool) -> Option<Draft> {
    let graph = &case.subject.snapshot.graph;
    let reader = graph.nodes()[step as usize];
    let mut draft = case.new_draft()?;
    let twin = draft.add_like(tensor);
    if !is_computed {
        let filled = &mut draft.tensor_mut(twin).tensor;
        filled.flags.0 &= !Flags::INPUT.0;
        filled.operation = Operation::Other;
    }
    let mut twins = vec![(tensor, twin)];
    for &view in &case.uses.views[tensor as usize] {
        let is_before = case.uses.step[view as usize].is_none_or(|at| at < step);
        let other = if is_before { draft.add_like(view) } else { view };
        let offset = graph.tensor(view).view.map_or(0, |view| view.offset);
        draft.tensor_mut(other).tensor.view = Some(View { root: twin, offset });
        twins.push((view, other));
    }
    let new: Vec<TensorId> = twins.iter().filter(|(old, new)| old != new).map(|&(_, new)| new).collect();
    draft.list_before(reader, &new);
    let twin_of: HashMap<TensorId, TensorId> = twins.into_iter().collect();
    let later: Vec<TensorId> =
        graph.nodes()[step as usize..].iter().copied().chain(new.iter().copied().skip(1)).collect();
    for id in later {
        for source in &mut draft.tensor_mut(id).sources {
            *source = twin_of.get(source).copied().unwrap_or(*source);
        }
    }
    Some(draft)
}
