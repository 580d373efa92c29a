//! Frees a tensor between two uses that are far apart, and computes or fills it again.

use std::collections::HashMap;

use crate::graph::{Effect, Flags, GraphEdit, Op, TensorId, View};
use crate::placement::Step;

use super::super::case::Case;
use super::super::change::Change;
use super::tried::{Candidate, Tried, try_change};

/// Tries it for a tensor that is used before and after the peak, but not at it.
pub fn try_again(case: &Case<'_>, candidate: Candidate) -> Option<Tried> {
    let Candidate { tensor, peak, .. } = candidate;
    let accesses = &case.uses.accesses[tensor as usize];
    let after = accesses.partition_point(|&step| step < peak);
    let &next_use = accesses.get(after).filter(|&&step| step > peak)?;
    let &last_use = accesses[..after].last()?;
    let is_computed = case.uses.def(tensor).is_some();
    if !is_free(case, tensor) || (is_computed && !can_be_recomputed(case, tensor, next_use)) {
        return None;
    }
    let edit = recomputed(case, tensor, next_use, is_computed)?;
    let change = Change::Again {
        tensor: case.named(tensor),
        bytes: candidate.bytes,
        is_computed,
        last_use: case.node(last_use),
        next_use: case.node(next_use),
    };
    try_change(case, change, Some(tensor), edit)
}

/// Returns whether only its own node writes a tensor, and nothing keeps it live to the end.
fn is_free(case: &Case<'_>, tensor: TensorId) -> bool {
    let graph = &case.planned.snapshot.graph;
    let is_plain = |&view: &TensorId| case.uses.only_makes_view(view) && !graph.tensor(view).flags.has(Flags::OUTPUT);
    case.uses.kept[tensor as usize].is_none() && case.uses.views[tensor as usize].iter().all(is_plain)
}

/// Returns whether the tensor has the same value if it is computed again at `step`.
fn can_be_recomputed(case: &Case<'_>, tensor: TensorId, step: Step) -> bool {
    let graph = &case.planned.snapshot.graph;
    let def = case.uses.step[tensor as usize];
    let roots: Vec<TensorId> = graph.sources(tensor).iter().map(|&source| graph.root(source)).collect();
    let is_pure = case.uses.effects[tensor as usize] == Effect::Result && !roots.contains(&tensor);
    def.is_some_and(|def| is_pure && !is_written(case, &roots, def, step))
}

/// Returns whether a node between two steps may write memory of these owners.
pub fn is_written(case: &Case<'_>, roots: &[TensorId], from: Step, to: Step) -> bool {
    let graph = &case.planned.snapshot.graph;
    let memory = |id: TensorId| case.planned.same_memory[graph.root(id) as usize];
    let is_one = |id: TensorId| roots.iter().any(|&root| memory(root) == memory(id));
    let writes = |&node: &TensorId| match case.uses.effects[node as usize] {
        Effect::Anything => true,
        effect @ Effect::Sources(_) => {
            let mut sources = graph.sources(node).iter().enumerate();
            is_one(node) || sources.any(|(position, &source)| effect.writes_source(position) && is_one(source))
        }
        Effect::Result => is_one(node),
        Effect::View | Effect::Nothing => false,
    };
    graph.nodes()[from as usize + 1..to as usize].iter().any(writes)
}

/// Returns the graph with a copy of the tensor right before `step`, which that step and those after it use.
fn recomputed(case: &Case<'_>, tensor: TensorId, step: Step, is_computed: bool) -> Option<GraphEdit> {
    let graph = &case.planned.snapshot.graph;
    let user = graph.nodes()[step as usize];
    let mut edit = case.new_edit()?;
    let copy = edit.copy(tensor);
    if !is_computed {
        let filled = edit.tensor_mut(copy);
        filled.flags.0 &= !Flags::INPUT.0;
        filled.set_op(Op::Unknown);
    }
    let mut copies = vec![(tensor, copy)];
    for &view in &case.uses.views[tensor as usize] {
        let is_before = case.uses.step[view as usize].is_none_or(|at| at < step);
        let other = if is_before { edit.copy(view) } else { view };
        let offset = graph.tensor(view).view.map_or(0, |view| view.offset);
        edit.tensor_mut(other).view = Some(View { root: copy, offset });
        copies.push((view, other));
    }
    let new: Vec<TensorId> = copies.iter().filter(|(old, new)| old != new).map(|&(_, new)| new).collect();
    edit.list_before(user, &new);
    let copy_of: HashMap<TensorId, TensorId> = copies.into_iter().collect();
    let later: Vec<TensorId> =
        graph.nodes()[step as usize..].iter().copied().chain(new.iter().copied().skip(1)).collect();
    for id in later {
        let sources: Vec<TensorId> =
            edit.sources(id).iter().map(|source| copy_of.get(source).copied().unwrap_or(*source)).collect();
        edit.set_sources(id, &sources);
    }
    Some(edit)
}
