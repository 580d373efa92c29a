//! Which single change would lower a peak most. Each is really made, in a copy of the graph, and its bytes are counted.

mod again;
mod copies;
mod later;
mod outputs;
mod settings;

use std::cmp::Reverse;

use crate::graph::TensorId;
use crate::placement::{Bytes, Step};

use super::case::Case;
use super::draft::Draft;
use super::trial::Trial;
use super::{Advice, Change, Limit};

pub use settings::for_all_buffers;

/// So many blocks of a peak are looked at, the largest first.
const MOST_BLOCKS: usize = 24;

/// And so many of the tensors in them.
const MOST_TENSORS: usize = 100;

/// What is less than this part of the peak is not worth a change.
const WORTH: Bytes = 256;

/// Nor is it worth one to lower the peak by less than this part.
const WORTH_A_CHANGE: Bytes = 1000;

/// So many changes are told.
const MOST_ADVICE: usize = 5;

/// A change and what it brings.
#[derive(Debug)]
pub struct Tried {
    change: Change,
    /// The tensor that is handled in another way, where it is one.
    tensor: Option<TensorId>,
    trial: Trial,
    raises: Raises,
}

/// The buffers that need more with a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Raises {
    None,
    One(usize),
    Several,
}

impl Tried {
    fn new(case: &Case<'_>, change: Change, tensor: Option<TensorId>, trial: Trial) -> Self {
        let mut raised = trial.bounds.iter().enumerate().filter(|&(buffer, &bound)| bound > case.bound(buffer));
        let raises = match (raised.next(), raised.next()) {
            (None, _) => Raises::None,
            (Some((buffer, _)), None) => Raises::One(buffer),
            (Some(_), Some(_)) => Raises::Several,
        };
        Self { change, tensor, trial, raises }
    }

    /// Memory that another buffer would need instead is not saved.
    fn raises_no_other(&self, buffer: usize) -> bool {
        self.raises == Raises::None || self.raises == Raises::One(buffer)
    }
}

/// A tensor that is alive at a peak, and could be handled in another way.
#[derive(Clone, Copy)]
struct Suspect {
    tensor: TensorId,
    /// The buffer.
    buffer: usize,
    /// Its padded bytes.
    bytes: Bytes,
    /// The step of the peak.
    peak: Step,
}

/// What lowers the peak of a buffer; where nothing does, what is in the way of the change that comes closest.
pub fn for_buffer(case: &Case<'_>, buffer: usize, peak: Step, everywhere: &[Tried]) -> (Vec<Advice>, Option<Limit>) {
    let tried: Vec<Tried> =
        suspects(case, buffer, peak).into_iter().flat_map(|suspect| try_all(case, suspect)).collect();
    let all = || everywhere.iter().chain(&tried).filter(|tried| tried.raises_no_other(buffer));
    let mut advice: Vec<Advice> = all().filter_map(|tried| advice(case, tried, buffer)).collect();
    advice.sort_by_key(|advice| Reverse(advice.saves));
    advice.truncate(MOST_ADVICE);
    let limit = if advice.is_empty() { limit(case, all(), buffer, peak) } else { None };
    (advice, limit)
}

fn suspects(case: &Case<'_>, buffer: usize, peak: Step) -> Vec<Suspect> {
    let worth = case.subject.plan.buffers[buffer].lower_bound / WORTH;
    let large = case.blocks_at(buffer, peak).into_iter().filter(|&(_, bytes)| bytes >= worth);
    let tensors = large.take(MOST_BLOCKS).flat_map(|(block, _)| case.tensors_at(buffer, block, peak));
    let suspect = |tensor| {
        let allocation = case.allocation(tensor, buffer)?;
        Some(Suspect { tensor, buffer, bytes: case.bytes(allocation), peak })
    };
    tensors.take(MOST_TENSORS).filter_map(suspect).collect()
}

fn try_all(case: &Case<'_>, suspect: Suspect) -> Vec<Tried> {
    // Whether a change is right is work, too.
    if !case.can_try() {
        return Vec::new();
    }
    let mut tried = later::try_later(case, suspect);
    tried.extend(again::try_again(case, suspect));
    tried.extend(outputs::try_no_output(case, suspect));
    tried.extend(outputs::try_leave_out(case, suspect));
    tried.extend(copies::try_no_copy(case, suspect));
    tried
}

/// Makes a change in the graph that concerns a tensor, or all, and finds out what it brings.
fn try_change(case: &Case<'_>, change: Change, tensor: Option<TensorId>, draft: &Draft) -> Option<Tried> {
    let trial = case.try_draft(draft, case.subject.buffers)?;
    Some(Tried::new(case, change, tensor, trial))
}

fn advice(case: &Case<'_>, tried: &Tried, buffer: usize) -> Option<Advice> {
    let lower_bound = tried.trial.bounds[buffer];
    let given = case.bound(buffer);
    let saves = given.checked_sub(lower_bound).filter(|&saves| saves > 0 && saves >= given / WORTH_A_CHANGE)?;
    Some(Advice { saves, lower_bound, worst: case.worst_of(&tried.trial, buffer), change: tried.change.clone() })
}

/// The change that frees most at the peak, though another step then needs as much as that one does.
fn limit<'t>(case: &Case<'_>, tried: impl Iterator<Item = &'t Tried>, buffer: usize, peak: Step) -> Option<Limit> {
    let &node = case.subject.snapshot.graph.nodes().get(peak as usize)?;
    let given = case.bound(buffer);
    let freed_at = |tried: &Tried, node| Some(given.saturating_sub(tried.trial.load_at(buffer, node)?));
    let is_worth = |&frees: &Bytes| frees > 0 && frees >= given / WORTH_A_CHANGE;
    // What only moves the peak to where its tensor is then made shows nothing.
    let moves_it =
        |tried: &Tried| tried.tensor.and_then(|tensor| freed_at(tried, tensor)).is_some_and(|it| !is_worth(&it));
    let found = tried.filter(|tried| !moves_it(tried));
    let found = found.filter_map(|tried| Some((freed_at(tried, node).filter(is_worth)?, tried)));
    let (frees, tried) = found.min_by_key(|(frees, tried)| (tried.trial.bounds[buffer], Reverse(*frees)))?;
    let (worst, lower_bound) = (case.worst_of(&tried.trial, buffer), tried.trial.bounds[buffer]);
    Some(Limit { frees, worst, lower_bound, change: tried.change.clone() })
}
