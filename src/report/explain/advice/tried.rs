//! Tensors whose handling could lower a peak, and changes with the bytes that they save.

use crate::graph::{GraphEdit, TensorId};
use crate::placement::{Bytes, Step};

use super::super::case::Case;
use super::super::change::Change;
use super::super::trial::Trial;

/// A change, and the memory that the changed graph needs.
#[derive(Debug)]
pub struct Tried {
    pub change: Change,
    /// The tensor that the change concerns, if it is a single one.
    pub tensor: Option<TensorId>,
    pub trial: Trial,
}

impl Tried {
    /// Returns whether no buffer but this one needs more: memory that another buffer needs instead is not saved.
    pub fn raises_no_other(&self, case: &Case<'_>, buffer: usize) -> bool {
        let mut bounds = self.trial.bounds.iter().enumerate();
        bounds.all(|(other, &bound)| other == buffer || bound <= case.bound(other))
    }
}

/// Computes the bytes that the changed graph needs; `None` if its bytes overflow.
pub fn try_change(case: &Case<'_>, change: Change, tensor: Option<TensorId>, edit: GraphEdit) -> Option<Tried> {
    let trial = case.try_edit(edit, case.planned.buffers)?;
    Some(Tried { change, tensor, trial })
}

/// At most this many blocks of a peak are candidates, the largest first.
const MAX_BLOCKS: usize = 24;

/// At most this many tensors in them are.
const MAX_TENSORS: usize = 100;

/// Blocks smaller than this fraction of the peak are not candidates.
const MIN_FRACTION: Bytes = 256;

/// A tensor that is live at a peak.
#[derive(Clone, Copy)]
pub struct Candidate {
    pub tensor: TensorId,
    pub buffer: usize,
    /// Its padded bytes.
    pub bytes: Bytes,
    /// The step of the peak.
    pub peak: Step,
}

/// Returns the largest tensors that are live at the peak of a buffer.
pub fn candidates(case: &Case<'_>, buffer: usize, peak: Step) -> Vec<Candidate> {
    let least = case.planned.plan.buffers[buffer].lower_bound / MIN_FRACTION;
    let large = case.blocks_at(buffer, peak).into_iter().filter(|&(_, bytes)| bytes >= least);
    let tensors = large.take(MAX_BLOCKS).flat_map(|(block, _)| case.tensors_at(buffer, block, peak));
    let candidate = |tensor| {
        let allocation = case.allocation(tensor, buffer)?;
        Some(Candidate { tensor, buffer, bytes: case.bytes(allocation), peak })
    };
    tensors.take(MAX_TENSORS).filter_map(candidate).collect()
}
