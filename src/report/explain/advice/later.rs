//! Defines a tensor right before its first use.

use std::collections::HashSet;

use crate::graph::{Effect, Flags, GraphEdit, Op, TensorId};
use crate::placement::Step;

use super::super::case::Case;
use super::super::change::Change;
use super::tried::{Candidate, Tried, try_change};

/// Tries it for a tensor that is first used after the peak. A node moves alone, and together with the nodes that only it
/// needs; the better of the two is returned.
pub fn try_later(case: &Case<'_>, candidate: Candidate) -> Vec<Tried> {
    let Candidate { tensor, buffer, .. } = candidate;
    let Some(&first_use) = case.uses.accesses[tensor as usize].first().filter(|&&first| first > candidate.peak) else {
        return Vec::new();
    };
    let user = case.planned.snapshot.graph.nodes()[first_use as usize];
    let views = views_before(case, tensor, first_use);
    let edits: Vec<(GraphEdit, usize)> = match case.uses.def(tensor) {
        None => fill_before(case, tensor, &views, user).map(|edit| (edit, 0)).into_iter().collect(),
        Some(def) if def < candidate.peak => moved(case, tensor, &views, user),
        Some(_) => Vec::new(),
    };
    let change = |with| Change::Later {
        tensor: case.named(tensor),
        bytes: candidate.bytes,
        def: case.uses.def(tensor),
        first_use: case.node(first_use),
        with,
    };
    let tried = edits.into_iter().filter_map(|(edit, with)| try_change(case, change(with), Some(tensor), edit));
    tried.min_by_key(|tried| tried.trial.bounds[buffer]).into_iter().collect()
}

/// Returns the nodes before `step` that make a view of the tensor, sorted.
fn views_before(case: &Case<'_>, tensor: TensorId, step: Step) -> Vec<TensorId> {
    let is_before = |&&view: &&TensorId| {
        case.uses.only_makes_view(view) && case.uses.step[view as usize].is_some_and(|at| at < step)
    };
    let mut views: Vec<TensorId> = case.uses.views[tensor as usize].iter().filter(is_before).copied().collect();
    views.sort_by_key(|&view| case.uses.step[view as usize]);
    views
}

/// Returns the graph with a leaf that is filled right before its first use.
fn fill_before(case: &Case<'_>, tensor: TensorId, views: &[TensorId], user: TensorId) -> Option<GraphEdit> {
    let mut edit = case.new_edit()?;
    let group: Vec<TensorId> = [&[tensor], views].concat();
    edit.unlist(&group);
    edit.list_before(user, &group);
    let filled = edit.tensor_mut(tensor);
    filled.flags.0 &= !Flags::INPUT.0;
    filled.set_op(Op::Unknown);
    Some(edit)
}

/// Returns the valid graphs with the node right before its first use, and how many nodes move with it.
fn moved(case: &Case<'_>, tensor: TensorId, views: &[TensorId], user: TensorId) -> Vec<(GraphEdit, usize)> {
    let alone: Vec<TensorId> = [&[tensor], views].concat();
    let family = with_ancestors(case, &alone);
    let is_more = family.len() > alone.len();
    let groups = [Some(alone), Some(family).filter(|_| is_more)];
    groups.into_iter().flatten().filter_map(|group| Some((move_before(case, &group, user)?, group.len() - 1))).collect()
}

/// How many uses are checked to find such nodes.
const MAX_CHECKS: usize = 100_000;

/// Returns the group with the nodes whose results only the group needs, sorted by step.
pub fn with_ancestors(case: &Case<'_>, group: &[TensorId]) -> Vec<TensorId> {
    let graph = &case.planned.snapshot.graph;
    let mut family = group.to_vec();
    let mut members: HashSet<TensorId> = group.iter().copied().collect();
    let (mut next, mut checks) = (0, 0);
    while next < family.len() && checks < MAX_CHECKS {
        for &source in graph.sources(family[next]) {
            let root = graph.root(source);
            let accesses = &case.uses.accesses[root as usize];
            let is_member = |&step: &Step| {
                checks += 1;
                members.contains(&graph.nodes()[step as usize])
            };
            let is_alone = accesses.iter().all(is_member)
                && case.uses.effects[root as usize] == Effect::Result
                && case.uses.kept[root as usize].is_none()
                && !graph.tensor(root).external
                && case.uses.step[root as usize].is_some();
            let views = case.uses.views[root as usize].iter().copied();
            for id in views.chain([root]).filter(|&id| is_alone && case.uses.step[id as usize].is_some()) {
                if members.insert(id) {
                    family.push(id);
                }
            }
        }
        next += 1;
    }
    family.sort_by_key(|&id| case.uses.step[id as usize]);
    family
}

/// Returns the graph with a group of nodes right before another, if all results stay the same.
fn move_before(case: &Case<'_>, group: &[TensorId], user: TensorId) -> Option<GraphEdit> {
    let mut edit = case.new_edit()?;
    edit.unlist(group);
    edit.list_before(user, group);
    let order: Option<Vec<Step>> = edit.nodes.iter().map(|&id| case.uses.step[id as usize]).collect();
    Some(edit).filter(|_| order.is_some_and(|order| case.hazards().allow(&order)))
}
