//! Jobs in which large intermediates are computed in tiles, by `LASTUSE_BUDGET`.

use std::fs;
use std::path::Path;

use lastuse_c_tests::Result;

use crate::job::Job;
use crate::run::{Run, run_beside};

/// A job with a budget for each of its allocators.
pub struct BudgetedJob {
    /// The job; `with` has the variable.
    pub job: Job,
    /// The budget, in bytes.
    pub budget: u64,
    /// The buffer types to compare: names, and the numbers of their allocators.
    pub allocators: &'static [(&'static str, u32)],
}

impl BudgetedJob {
    /// Runs the job on ggml-alloc, and with the budget. Checks that results are the same, that the buffers keep the
    /// budget, and that those which are looked at were larger. Prints ratios and adds them to `report.txt` in `folder`.
    ///
    /// # Errors
    /// A failed check.
    pub fn check(&self, folder: &Path) -> Result<()> {
        let wrong = |why: String| format!("{}: {why}", self.job.label());
        let [without, with] = run_beside(&self.job, 0, folder);
        let (without, with) = (without.map_err(wrong)?, with.map_err(wrong)?);
        if let Some(why) = with.counted.wrong(&without.counted).first() {
            return Err(wrong(why.clone()));
        }
        if with.results != without.results {
            return Err(wrong("the results differ".to_owned()));
        }
        let mut lines =
            vec![format!("With LASTUSE_BUDGET={}, {}: the results are the same.", self.budget, self.job.label())];
        for &(name, allocator) in self.allocators {
            let bytes =
                |run: &Run| run.counted.buffers.get(&(allocator, "CPU".to_owned())).copied().unwrap_or_default();
            let (before, after) = (bytes(&without), bytes(&with));
            if after > self.budget || before <= self.budget {
                return Err(wrong(format!("{name} takes {after} bytes, of {before}, for a budget of {}", self.budget)));
            }
            lines.push(line(name, before, after));
        }
        if let (Some(before), Some(after)) = (without.peak_resident, with.peak_resident) {
            lines.push(line("peak resident memory", before, after));
        }
        lines.push(format!("speed: {:.3} of that on ggml-alloc", with.units_per_second / without.units_per_second));
        let text = lines.join("\n") + "\n";
        print!("{text}");
        let report = folder.join("report.txt");
        let text = fs::read_to_string(&report).unwrap_or_default() + &text;
        fs::write(&report, text).map_err(|error| format!("{}: {error}", report.display()))
    }
}

fn line(name: &str, before: u64, after: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "a ratio of three digits")]
    let ratio = after as f64 / before as f64;
    format!("{name}: {before} bytes, {after} ({ratio:.3})")
}
