//! Changes with the bytes that they save.

use crate::graph::{GraphEdit, TensorId};

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
    pub fn new(case: &Case<'_>, change: Change, tensor: Option<TensorId>, trial: Trial) -> Self {
        let mut raised = trial.bounds.iter().enumerate().filter(|&(buffer, &bound)| bound > case.bound(buffer));
        let raises = match (raised.next(), raised.next()) {
            (None, _) => Raises::None,
            (Some((buffer, _)), None) => Raises::One(buffer),
            (Some(_), Some(_)) => Raises::Several,
        };
        Self { change, tensor, trial, raises }
    }

    /// Returns whether no buffer but this one needs more: memory that another buffer needs instead is not saved.
    pub fn raises_no_other(&self, buffer: usize) -> bool {
        self.raises == Raises::None || self.raises == Raises::One(buffer)
    }
}

/// Computes the bytes that the changed graph needs; `None` if its bytes overflow.
pub fn try_change(case: &Case<'_>, change: Change, tensor: Option<TensorId>, edit: GraphEdit) -> Option<Tried> {
    let trial = case.try_edit(edit, case.planned.buffers)?;
    Some(Tried::new(case, change, tensor, trial))
}
