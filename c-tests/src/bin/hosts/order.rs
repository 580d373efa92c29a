//! Jobs whose nodes run in another order, by `LASTUSE_REORDER`.

use std::fs;
use std::path::{Path, PathBuf};

use lastuse_c_tests::{Program, Result, tool};

use crate::job::Job;
use crate::run::{Run, run};

/// The variable that the launch with lastuse has.
pub const REORDER: &str = "LASTUSE_REORDER";

/// A job in whose largest graph the order of the nodes is looked at.
pub struct ReorderedJob {
    /// The job; `with` has the variable.
    pub job: Job,
    /// The name of that graph, and the number of its allocator.
    pub allocator: (&'static str, u32),
    /// The largest size of its buffer, as lastuse / ggml-alloc.
    pub most: f64,
}

impl ReorderedJob {
    /// Runs the job on ggml-alloc, and reordered. Checks that results are the same, and that the buffer takes what
    /// `lastuse plan --reorder` promises of the graph that the program gives, and no more than it may. Prints a line, and adds
    /// it to `report.txt` in `folder`. The captured graphs stay in `captures` there.
    ///
    /// # Errors
    /// A failed check.
    pub fn check(&self, folder: &Path) -> Result<()> {
        let Self { job, allocator: (name, allocator), most } = self;
        let wrong = |why: String| format!("{}: {why}", job.label());
        let without = run(job, &job.without, folder).map_err(wrong)?;
        let with = run(job, &job.with, folder).map_err(wrong)?;
        if let Some(why) = with.counted.wrong(&without.counted).first() {
            return Err(wrong(why.clone()));
        }
        if with.results != without.results {
            return Err(wrong("the results differ".to_owned()));
        }
        let bytes = |run: &Run| run.counted.buffers.get(&(*allocator, "CPU".to_owned())).copied().unwrap_or_default();
        let (before, after) = (bytes(&without), bytes(&with));
        let promised = self.promised(folder).map_err(wrong)?;
        #[allow(clippy::cast_precision_loss, reason = "a ratio of three digits is compared")]
        let ratio = after as f64 / before as f64;
        let line = format!(
            "{}: {name}: {before} bytes, {after} in the order of {REORDER} ({ratio:.3}), {promised} promised.\n",
            job.label()
        );
        print!("{line}");
        let report = folder.join("report.txt");
        let text = fs::read_to_string(&report).unwrap_or_default() + &line;
        fs::write(&report, text).map_err(|error| format!("{}: {error}", report.display()))?;
        // Not a number if the allocator was not seen.
        if !(ratio > 0.0 && ratio <= *most) {
            return Err(wrong(format!("{name} takes {after} bytes, of {before}: not at most {most}")));
        }
        if after != promised {
            return Err(wrong(format!("{name} takes {after} bytes, and lastuse plan --reorder promises {promised}")));
        }
        Ok(())
    }

    /// Returns the bytes that `lastuse plan --reorder` promises of the largest graph that the program gives.
    fn promised(&self, folder: &Path) -> Result<u64> {
        let captures = captures(folder);
        let _ = fs::remove_dir_all(&captures);
        let mut launch = self.job.with.clone();
        launch.variables.retain(|(name, _)| *name != REORDER);
        launch.variables.push(("LASTUSE_CAPTURE", captures.clone().into()));
        run(&self.job, &launch, folder)?;
        let file = largest_file(&captures)?;
        let arguments = ["plan", "--json", "--reorder", &*file.to_string_lossy()];
        let outcome = Program::existing(&tool()?).run_with(&arguments, &[])?;
        let plan: Option<serde_json::Value> = serde_json::from_str(&outcome.stdout).ok();
        let sizes = plan.as_ref().and_then(|plan| plan["buffers"].as_array());
        sizes
            .and_then(|buffers| buffers.iter().map(|buffer| buffer["size"].as_u64()).sum())
            .ok_or_else(|| format!("lastuse plan --reorder: {}", outcome.describe()))
    }
}

/// Returns the folder of captured graphs.
pub fn captures(folder: &Path) -> PathBuf {
    folder.join("captures")
}

fn largest_file(folder: &Path) -> Result<PathBuf> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        files.push((entry.metadata().map_err(failed)?.len(), entry.path()));
    }
    files.into_iter().max().map(|(_, path)| path).ok_or_else(|| format!("{}: no graph was captured", folder.display()))
}
