//! How far a search is, as a program is told.

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

impl std::fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
