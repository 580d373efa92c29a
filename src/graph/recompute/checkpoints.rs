//! First choices: all is dropped but what crosses a few narrow steps of the forward pass.
//!
//! Keeping every k-th layer of a network is a choice of this kind, as each layer begins where few bytes are live. Here
//! the steps are found by the bytes alone: a segment may make at most a given number of bytes before the next narrow
//! step.

use crate::graph::live_bytes::{Model, ValueId};
use crate::placement::{Bytes, Step, sum_of_ranges};

use super::facts::NodeFacts;

/// How many sizes of segments are tried, each a part of the one before.
const SIZES: u32 = 24;

/// A value that may be dropped, in the forward pass.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    value: ValueId,
    def: Step,
    last_use: Step,
    size: Bytes,
}

/// Returns choices of what to drop, by value: the first keeps nothing, later ones more and more.
pub fn checkpoints(facts: &NodeFacts, model: &Model) -> Vec<Vec<bool>> {
    let candidates = candidates(facts, model);
    let crossing = crossing_bytes(facts, &candidates);
    let total: Bytes = candidates.iter().map(|candidate| candidate.size).sum();
    let mut choices: Vec<Vec<bool>> = Vec::new();
    let mut most = total;
    for _ in 0..SIZES {
        let choice = keep_between(facts, model, &candidates, &crossing, most);
        if choices.last() != Some(&choice) {
            choices.push(choice);
        }
        most = most / 4 * 3;
    }
    choices
}

fn candidates(facts: &NodeFacts, model: &Model) -> Vec<Candidate> {
    let mut last_uses = vec![0; facts.candidates.len()];
    for step in 0..facts.boundary {
        for &source in &facts.sources[step as usize] {
            if let Some(value) = facts.values[source as usize] {
                last_uses[value as usize] = step;
            }
        }
    }
    let with_def = (0u32..).zip(&facts.candidates).filter_map(|(value, def)| Some((value, (*def)?)));
    let mut found: Vec<Candidate> = with_def
        .map(|(value, def)| Candidate {
            value,
            def,
            last_use: last_uses[value as usize],
            size: model.values[value as usize].size,
        })
        .collect();
    found.sort_unstable_by_key(|candidate| candidate.def);
    found
}

/// Returns, by forward step, the bytes of candidates that are made up to it and used after it in the forward pass.
fn crossing_bytes(facts: &NodeFacts, candidates: &[Candidate]) -> Vec<Bytes> {
    let crossed = |it: &Candidate| (it.def as usize..it.last_use.max(it.def) as usize, it.size);
    sum_of_ranges(facts.boundary as usize + 1, candidates.iter().map(crossed))
}

/// Drops all but what crosses the narrowest step of each segment; a segment makes at most `most` bytes.
fn keep_between(
    facts: &NodeFacts,
    model: &Model,
    candidates: &[Candidate],
    crossing: &[Bytes],
    most: Bytes,
) -> Vec<bool> {
    let mut dropped = vec![false; model.values.len()];
    candidates.iter().for_each(|candidate| dropped[candidate.value as usize] = true);
    let (mut start, mut made) = (0, 0);
    let mut next = 0;
    while next < candidates.len() {
        made += candidates[next].size;
        if made <= most {
            next += 1;
            continue;
        }
        let end = candidates[next].def;
        let narrowest = (start..end).rev().min_by_key(|&step| crossing[step as usize]);
        let Some(cut) = narrowest else {
            // A single value is larger than a segment.
            (start, made) = (end + 1, 0);
            next += 1;
            continue;
        };
        let crosses = |candidate: &&Candidate| candidate.def <= cut && cut < candidate.last_use;
        candidates.iter().filter(crosses).for_each(|candidate| dropped[candidate.value as usize] = false);
        (start, made) = (cut + 1, 0);
        next = candidates.partition_point(|candidate| candidate.def <= cut);
    }
    debug_assert!(start <= facts.boundary + 1, "cuts are in the forward pass");
    dropped
}
