//! Changes of the whole graph: sharing rules, another order of the nodes, no copies, nothing retained.

use std::cmp::Reverse;

use crate::graph::order::{ReorderEffort, reorder};
use crate::graph::{BufferIndex, BufferSpec, Requests, RuleSetting, Rules, TensorId};

use super::super::case::Case;
use super::super::change::Change;
use super::super::named::Alias;
use super::super::trial::Trial;
use super::copies::try_remove_copies;
use super::outputs::try_release_all;
use super::tried::Tried;

/// Tries the changes that concern all buffers.
pub fn for_all_buffers(case: &Case<'_>) -> Vec<Tried> {
    let mut tried = try_rules(case);
    tried.extend(try_reorder(case));
    tried.extend(try_remove_copies(case));
    tried.extend(try_release_all(case));
    tried
}

/// Tries each rule that is off but valid, and all of them.
fn try_rules(case: &Case<'_>) -> Vec<Tried> {
    let buffers = || case.planned.buffers.iter().zip(case.planned.allowed);
    let mut names: Vec<&str> = buffers().flat_map(|(buffer, &allowed)| buffer.rules.off_among(allowed)).collect();
    names.sort_unstable();
    names.dedup();
    let with = |change: &dyn Fn(Rules, Rules) -> Rules| -> Vec<BufferSpec> {
        buffers().map(|(buffer, &allowed)| BufferSpec { rules: change(buffer.rules, allowed), ..*buffer }).collect()
    };
    let one = |name: &&str| {
        let on: RuleSetting = name.parse().ok()?;
        let may = |allowed: Rules| Rules::NONE.off_among(allowed).any(|allowed| allowed == *name);
        let buffers = with(&|rules, allowed| if may(allowed) { on.rules(rules) } else { rules });
        let trial = try_buffers(case, &buffers)?;
        let change = Change::Rule { rule: (*name).to_owned(), example: example(case, &trial) };
        Some(Tried { change, tensor: None, trial })
    };
    let mut tried: Vec<Tried> = names.iter().filter_map(one).collect();
    if names.len() > 1 {
        let all = try_buffers(case, &with(&|_, allowed| allowed));
        tried.extend(all.map(|trial| Tried { change: Change::AllRules, tensor: None, trial }));
    }
    tried
}

/// Plans the given graph in other buffers.
fn try_buffers(case: &Case<'_>, buffers: &[BufferSpec]) -> Option<Trial> {
    case.try_edit(case.new_edit()?, buffers)
}

/// Returns the largest tensor that is computed in place in the trial, but not in the given plan.
fn example(case: &Case<'_>, trial: &Trial) -> Option<Alias> {
    let is_in_place = |id: TensorId| {
        case.planned.plan.allocations[id as usize].is_some_and(|allocation| allocation.in_place_of.is_some())
    };
    let original = |id: TensorId| trial.origins[id as usize];
    let found = trial.origins.iter().copied().zip(&trial.allocations).filter(|&(id, _)| !is_in_place(id));
    let found = found.filter_map(|(id, allocation)| {
        let (allocation, step) = ((*allocation)?, case.uses.step[id as usize]?);
        let memory_of = case.named(original(allocation.in_place_of?));
        Some(Alias { tensor: case.named(id), step, bytes: case.bytes(allocation), memory_of })
    });
    found.min_by_key(|alias| (Reverse(alias.bytes), alias.step))
}

/// The work of the search for another order, in trials.
const REORDERING: u64 = 10;

/// Tries another order of the nodes.
fn try_reorder(case: &Case<'_>) -> Option<Tried> {
    let snapshot = case.planned.snapshot;
    if !case.may_try(REORDERING) {
        return None;
    }
    let (leafs, nodes) = snapshot.requested_buffers();
    let requests = Requests { leafs: &leafs, nodes: &nodes };
    let mut sizes = |id: TensorId, buffer: BufferIndex| snapshot.tensors[id as usize].size_in(buffer);
    let found =
        reorder(&snapshot.graph, case.planned.buffers, requests, &mut sizes, case.hazards(), ReorderEffort::default())
            .ok()?;
    let moved = Some(found.moved).filter(|&moved| moved > 0)?;
    let mut edit = case.new_edit()?;
    edit.nodes = found.order.iter().map(|&step| snapshot.graph.nodes()[step as usize]).collect();
    let trial = case.try_edit(edit, case.planned.buffers)?;
    Some(Tried { change: Change::Reorder { moved }, tensor: None, trial })
}
