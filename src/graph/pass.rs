//! What the passes share: why a graph is not changed, how far a search is, and sizes that are queried once.

use std::fmt;

use crate::graph::{BufferIndex, Graph, PlanError, Sizes, TensorId};

/// Why a pass changes nothing, whatever the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotChanged {
    /// No node is flagged as a loss, so nothing can be recomputed.
    NoLoss,
    /// No node follows the loss.
    NoBackward,
    /// The lists of leafs and nodes have a tensor twice.
    ListedTwice(TensorId),
    /// Sizes overflow.
    Plan(PlanError),
    /// The caller cancelled the search.
    Cancelled,
}

impl NotChanged {
    /// Checks that the lists of a graph have each tensor once.
    ///
    /// # Errors
    /// [`NotChanged::ListedTwice`].
    pub fn check_lists(graph: &Graph) -> Result<(), Self> {
        let mut is_listed = vec![false; graph.tensors().len()];
        let mut listed = graph.leafs().iter().chain(graph.nodes());
        let twice = listed.find(|&&id| std::mem::replace(&mut is_listed[id as usize], true));
        twice.map_or(Ok(()), |&id| Err(Self::ListedTwice(id)))
    }
}

impl fmt::Display for NotChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLoss => write!(
                f,
                "the graph has no loss: recomputation is for training graphs, in which ggml_set_loss flags the loss and \
                 ggml_build_backward_expand adds the backward pass"
            ),
            Self::NoBackward => write!(
                f,
                "the graph has no backward pass: no node follows the loss; add it with ggml_build_backward_expand first"
            ),
            Self::ListedTwice(tensor) => write!(f, "the graph lists tensor {tensor} twice among its leafs and nodes"),
            Self::Plan(error) => write!(f, "{error}"),
            Self::Cancelled => write!(f, "the search was cancelled by its progress callback"),
        }
    }
}

impl std::error::Error for NotChanged {}

impl From<PlanError> for NotChanged {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}

/// Returns `sizes` of a graph of `tensors`, in `buffers`, each of which is queried once.
pub fn queried_once(sizes: &mut dyn Sizes, tensors: usize, buffers: usize) -> impl Sizes {
    let mut known = vec![vec![None; tensors]; buffers];
    move |id: TensorId, buffer: BufferIndex| {
        *known[buffer as usize][id as usize].get_or_insert_with(|| sizes.alloc_size(id, buffer))
    }
}

/// Reports the part of a search that is done. The reported part never falls, though searches may start over.
pub struct Progress<'a> {
    report: &'a mut dyn FnMut(f64) -> bool,
    stage: i32,
    done: f64,
}

impl<'a> Progress<'a> {
    /// Reports to a function that returns `false` to cancel the search.
    pub fn new(report: &'a mut dyn FnMut(f64) -> bool) -> Self {
        Self { report, stage: 0, done: 0.0 }
    }

    /// Begins the next stage. The number of stages is not known, so each has half of the rest.
    pub fn start_stage(&mut self) {
        self.stage += 1;
    }

    /// Reports the part of the effort of this stage that is used. Returns `false` if the search is cancelled.
    #[expect(clippy::cast_precision_loss, reason = "a part of the effort, to show")]
    pub fn used(&mut self, left: u64, effort: u64) -> bool {
        let used = 1.0 - (left as f64 / effort.max(1) as f64).min(1.0);
        self.done = self.done.max(1.0 - (2.0 - used) * 0.5f64.powi(self.stage));
        (self.report)(self.done)
    }

    /// Reports the end. Returns `false` if the search is cancelled.
    pub fn end(&mut self) -> bool {
        self.done = 1.0;
        (self.report)(self.done)
    }
}

impl fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("done", &self.done).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reported_rises_to_one() {
        let mut reported = Vec::new();
        let mut report = |done| {
            reported.push(done);
            true
        };
        let mut progress = Progress::new(&mut report);
        progress.start_stage();
        for left in [100, 20, 60, 0] {
            assert!(progress.used(left, 100));
        }
        progress.start_stage();
        assert!(progress.used(100, 100) && progress.end());
        assert!(reported.is_sorted() && reported.last() == Some(&1.0), "{reported:?}");
    }
}
