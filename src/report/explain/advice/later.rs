//! Something has memory long before anybody reads it: make it right before that.

use std::collections::HashSet;

use crate::graph::order::Effect;
use crate::graph::{Flags, Operation, TensorId};
use crate::placement::Step;

use super::super::Change;
use super::super::case::Case;
use super::super::draft::Draft;
use super::{Suspect, Tried, try_change};

/// Of a tensor that nobody reads before the peak and somebody after it. What is computed moves alone, and with the nodes
/// that only it needs; the better of the two is told.
pub fn try_later(case: &Case<'_>, suspect: Suspect) -> Vec<Tried> {
    let Suspect { tensor, buffer, .. } = suspect;
    let Some(&first_read) = case.uses.touched[tensor as usize].first().filter(|&&first| first > suspect.peak) else {
        return Vec::new();
    };
    let reader = case.subject.snapshot.graph.nodes()[first_read as usize];
    let views = views_before(case, tensor, first_read);
    let drafts: Vec<(Draft, usize)> = match case.uses.made(tensor) {
        None => fill_before(case, tensor, &views, reader).map(|draft| (draft, 0)).into_iter().collect(),
        Some(made) if made < suspect.peak => moved(case, tensor, &views, reader),
        Some(_) => Vec::new(),
    };
    let change = |with| Change::Later {
        tensor: case.named(tensor),
        bytes: suspect.bytes,
        made: case.uses.made(tensor),
        first_read: case.node(first_read),
        with,
    };
    let tried = drafts.into_iter().filter_map(|(draft, with)| try_change(case, change(with), Some(tensor), &draft));
    tried.min_by_key(|tried| tried.trial.bounds[buffer]).into_iter().collect()
}

/// Nodes that are another look at the tensor, before somebody reads it.
fn views_before(case: &Case<'_>, tensor: TensorId, step: Step) -> Vec<TensorId> {
    let is_before =
        |&&view: &&TensorId| case.uses.only_looks(view) && case.uses.step[view as usize].is_some_and(|at| at < step);
    let mut views: Vec<TensorId> = case.uses.views[tensor as usize].iter().filter(is_before).copied().collect();
    views.sort_by_key(|&view| case.uses.step[view as usize]);
    views
}

/// What has memory from the start gets it there.
fn fill_before(case: &Case<'_>, tensor: TensorId, views: &[TensorId], reader: TensorId) -> Option<Draft> {
    let mut draft = case.new_draft()?;
    let group: Vec<TensorId> = [&[tensor], views].concat();
    draft.unlist(&group);
    draft.list_before(reader, &group);
    let filled = &mut draft.tensor_mut(tensor).tensor;
    filled.flags.0 &= !Flags::INPUT.0;
    filled.operation = Operation::Other;
    Some(draft)
}

/// The ways in which the node can be computed there, and how many nodes move with it.
fn moved(case: &Case<'_>, tensor: TensorId, views: &[TensorId], reader: TensorId) -> Vec<(Draft, usize)> {
    let alone: Vec<TensorId> = [&[tensor], views].concat();
    let family = with_ancestors(case, &alone);
    let is_more = family.len() > alone.len();
    let groups = [Some(alone), Some(family).filter(|_| is_more)];
    groups
        .into_iter()
        .flatten()
        .filter_map(|group| Some((move_before(case, &group, reader)?, group.len() - 1)))
        .collect()
}

/// So often a reader is looked at to find such nodes.
const MOST_LOOKS: usize = 100_000;

/// Adds the nodes whose results only these read.
pub fn with_ancestors(case: &Case<'_>, group: &[TensorId]) -> Vec<TensorId> {
    let graph = &case.subject.snapshot.graph;
    let mut family = group.to_vec();
    let mut members: HashSet<TensorId> = group.iter().copied().collect();
    let (mut next, mut looks) = (0, 0);
    while next < family.len() && looks < MOST_LOOKS {
        for &source in graph.sources(family[next]) {
            let root = graph.root(source);
            let readers = &case.uses.touched[root as usize];
            let is_member = |&step: &Step| {
                looks += 1;
                members.contains(&graph.nodes()[step as usize])
            };
            let is_alone = readers.iter().all(is_member)
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

/// The graph with these nodes right before another, where that changes nothing of what is computed.
fn move_before(case: &Case<'_>, group: &[TensorId], reader: TensorId) -> Option<Draft> {
    let mut draft = case.new_draft()?;
    draft.unlist(group);
    draft.list_before(reader, group);
    let order: Option<Vec<Step>> = draft.nodes.iter().map(|&id| case.uses.step[id as usize]).collect();
    Some(draft).filter(|_| order.is_some_and(|order| case.hazards().allow(&order)))
}
