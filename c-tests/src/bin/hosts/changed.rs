//! Jobs that a variable changes: computed in tiles, by `LASTUSE_BUDGET`, in another order, by `LASTUSE_REORDER`, or in memory that
//! allocators share, by `LASTUSE_ARENA`.

use std::fs;
use std::path::{Path, PathBuf};

use lastuse_c_tests::{Program, Result, guard_library, tool};

use crate::job::Job;
use crate::jobs::{Options, run_jobs};
use crate::measured::measure_jobs;
use crate::run::{Run, run, run_beside};

/// Checks that a job has the same results on lastuse, and no larger buffer.
fn check_same(without: &Run, with: &Run) -> Result<()> {
    if let Some(why) = with.counted.wrong(&without.counted).first() {
        return Err(why.clone());
    }
    if with.results == without.results { Ok(()) } else { Err("the results differ".to_owned()) }
}

/// Returns the bytes of the buffer on the CPU of an allocator.
fn bytes(run: &Run, allocator: u32) -> u64 {
    run.counted.buffers.get(&(allocator, "CPU".to_owned())).copied().unwrap_or_default()
}

#[allow(clippy::cast_precision_loss, reason = "a ratio of three digits")]
fn ratio(after: u64, before: u64) -> f64 {
    after as f64 / before as f64
}

/// Prints a text and adds it to the report in a folder.
fn add_to_report(folder: &Path, text: &str) -> Result<()> {
    print!("{text}");
    let report = folder.join("report.txt");
    let text = fs::read_to_string(&report).unwrap_or_default() + text;
    fs::write(&report, text).map_err(|error| format!("{}: {error}", report.display()))
}

/// A job with a budget for each of its allocators.
pub struct BudgetedJob {
    /// The job; `with` has the variable.
    pub job: Job,
    /// The variable.
    pub variable: &'static str,
    /// The budget, in bytes.
    pub budget: u64,
    /// The buffer types to compare: names, and the numbers of their allocators.
    pub allocators: &'static [(&'static str, u32)],
}

impl BudgetedJob {
    /// Gives the scheduler of a job a budget: the guard is preloaded.
    ///
    /// # Errors
    /// The guard cannot be built.
    pub fn of_scheduler(job: Job, budget: u64, allocators: &'static [(&'static str, u32)]) -> Result<Self> {
        Self::with_variable("LASTUSE_BUDGET", job, budget, allocators)
    }

    /// Gives the training graphs of a job a budget.
    ///
    /// # Errors
    /// The guard cannot be built.
    pub fn of_training(job: Job, budget: u64, allocators: &'static [(&'static str, u32)]) -> Result<Self> {
        Self::with_variable("LASTUSE_RECOMPUTE", job, budget, allocators)
    }

    fn with_variable(
        variable: &'static str,
        mut job: Job,
        budget: u64,
        allocators: &'static [(&'static str, u32)],
    ) -> Result<Self> {
        job.with.preload(&guard_library()?);
        job.with.variables.push((variable, budget.to_string().into()));
        Ok(Self { job, variable, budget, allocators })
    }

    /// Runs the job on ggml-alloc, and with the budget. Checks that results are the same, that the buffers keep the
    /// budget, and that those which are looked at were larger. Prints ratios and adds them to `report.txt` in `folder`.
    ///
    /// # Errors
    /// A failed check.
    pub fn check(&self, folder: &Path) -> Result<()> {
        let wrong = |why: String| format!("{}: {why}", self.job.label());
        let [without, with] = run_beside(&self.job, 0, folder);
        let (without, with) = (without.map_err(wrong)?, with.map_err(wrong)?);
        check_same(&without, &with).map_err(wrong)?;
        let mut lines =
            vec![format!("With {}={}, {}: the results are the same.", self.variable, self.budget, self.job.label())];
        for &(name, allocator) in self.allocators {
            let (before, after) = (bytes(&without, allocator), bytes(&with, allocator));
            if after > self.budget || before <= self.budget {
                return Err(wrong(format!("{name} takes {after} bytes, of {before}, for a budget of {}", self.budget)));
            }
            lines.push(line(name, before, after));
        }
        if let (Some(before), Some(after)) = (without.peak_resident, with.peak_resident) {
            lines.push(line("peak resident memory", before, after));
        }
        lines.push(format!("speed: {:.3} of that on ggml-alloc", with.units_per_second / without.units_per_second));
        add_to_report(folder, &(lines.join("\n") + "\n"))
    }
}

fn line(name: &str, before: u64, after: u64) -> String {
    format!("{name}: {before} bytes, {after} ({:.3})", ratio(after, before))
}

/// A job whose allocators take turns.
pub struct SharedJob {
    /// The job, without the variable.
    pub job: Job,
    /// The value of the variable.
    pub arena: &'static str,
    /// Bytes of results that are kept apart; `None` if all buffers at a time may be more.
    pub apart: Option<u64>,
}

/// What all allocators in an arena take at a time, as a share of the bytes of the largest without it and of what is apart.
const MOST_IN_ARENA: f64 = 1.02;

/// Runs the jobs of a host, those in an arena, and those with a budget, as far as the options name them.
///
/// # Errors
/// A failed check.
pub fn run_all(
    host: &str,
    folder: &Path,
    jobs: &[Job],
    (shared, budgeted): (&[SharedJob], &[BudgetedJob]),
    options: &Options,
) -> Result<()> {
    if options.measured {
        let all: Vec<&Job> = jobs.iter().chain(shared.iter().map(|shared| &shared.job)).collect();
        return measure_jobs(host, folder, &all, options);
    }
    let is_wanted = |job: &Job| options.names(job) && !options.faults;
    let shared: Vec<&SharedJob> = shared.iter().filter(|shared| is_wanted(&shared.job)).collect();
    let budgeted: Vec<&BudgetedJob> = budgeted.iter().filter(|budgeted| is_wanted(&budgeted.job)).collect();
    // Words that name those alone name none of the others.
    if (shared.is_empty() && budgeted.is_empty()) || jobs.iter().any(|job| options.names(job)) {
        run_jobs(host, folder, jobs, options)?;
    }
    shared.into_iter().try_for_each(|shared| shared.check(folder))?;
    budgeted.into_iter().try_for_each(|budgeted| budgeted.check(folder))
}

impl SharedJob {
    /// Runs the job on ggml-alloc, on lastuse, and there with an arena. Checks that results are the same, and that all
    /// allocators together take little more than the largest and what is kept apart. Prints a line, and adds it to `report.txt` in `folder`.
    ///
    /// # Errors
    /// A failed check.
    pub fn check(&self, folder: &Path) -> Result<()> {
        let Self { job, arena, apart: kept } = self;
        let wrong = |why: String| format!("{}: {why}", job.label());
        let [without, apart] = run_beside(job, 0, folder);
        let (without, apart) = (without.map_err(wrong)?, apart.map_err(wrong)?);
        check_same(&without, &apart).map_err(wrong)?;
        let mut launch = job.with.clone();
        launch.variables.push(("LASTUSE_ARENA", arena.into()));
        // As lastuse run does: the guard tells whose turn it is on a device.
        launch.preload(&guard_library()?);
        let shared = run(job, &launch, folder).map_err(wrong)?;
        if shared.results != without.results {
            return Err(wrong("the results differ".to_owned()));
        }
        let largest = apart.counted.largest_of_types();
        let (before, own, together) = (without.counted.most, apart.counted.most, shared.counted.most);
        let line = format!(
            "With LASTUSE_ARENA={arena}, {}: the results are the same; all buffers {before} bytes, {own} with lastuse, {together} \
             in the arena: {:.3} of the largest.\n",
            job.label(),
            ratio(together, largest)
        );
        add_to_report(folder, &line)?;
        if largest == 0 {
            return Err(wrong("no allocator was seen".to_owned()));
        }
        match kept {
            Some(kept) if ratio(together, largest + kept) > MOST_IN_ARENA => {
                Err(wrong(format!("{together} bytes in the arena: more than {MOST_IN_ARENA} of {largest} and {kept}")))
            }
            _ => Ok(()),
        }
    }
}

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
        check_same(&without, &with).map_err(wrong)?;
        let (before, after) = (bytes(&without, *allocator), bytes(&with, *allocator));
        let promised = self.promised(folder).map_err(wrong)?;
        let ratio = ratio(after, before);
        let line = format!(
            "{}: {name}: {before} bytes, {after} in the order of {REORDER} ({ratio:.3}), {promised} promised.\n",
            job.label()
        );
        add_to_report(folder, &line)?;
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
