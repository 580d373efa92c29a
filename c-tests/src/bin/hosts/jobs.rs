//! All jobs of a host, one after the other.

use std::fs;
use std::path::Path;

use lastuse_c_tests::Result;

use crate::compare::{Compared, compare};
use crate::faults::run_faults;
use crate::job::Job;
use crate::report::{report, wrong};

/// Options of the command line for the jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How often each job is run on each allocator.
    pub rounds: usize,
    /// Only jobs with all of these words in their labels are run.
    pub only: Vec<String>,
    /// Each buffer is refused in its own run, instead of comparing.
    pub faults: bool,
    /// `lastuse measure` is compared with runs, instead.
    pub measured: bool,
}

impl Options {
    /// Returns whether a job is to be run.
    pub fn names(&self, job: &Job) -> bool {
        self.only.iter().all(|word| job.label().contains(word))
    }

    /// Returns the jobs that are run.
    ///
    /// # Errors
    /// When there are none.
    pub fn wanted<'a>(&self, host: &str, jobs: &'a [Job]) -> Result<Vec<&'a Job>> {
        let wanted: Vec<&Job> = jobs.iter().filter(|job| self.names(job)).collect();
        if wanted.is_empty() {
            return Err(format!("no job of {host} has the words {:?}", self.only));
        }
        Ok(wanted)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { rounds: 5, only: Vec::new(), faults: false, measured: false }
    }
}

/// Runs the jobs of a host on both allocators, prints the table and writes it to `report.txt` in `folder`. With
/// [`Options::faults`], see [`run_faults`].
///
/// # Errors
/// When a job fails without lastuse, or a check fails.
pub fn run_jobs(host: &str, folder: &Path, jobs: &[Job], options: &Options) -> Result<()> {
    if options.faults {
        return run_faults(host, folder, jobs, options);
    }
    let wanted = options.wanted(host, jobs)?;
    let mut all: Vec<Compared> = Vec::new();
    for (number, job) in wanted.iter().enumerate() {
        eprintln!("[{host}] {} of {}: {}", number + 1, wanted.len(), job.label());
        let compared = compare(job, options.rounds, folder)?;
        print_wrong(host, &compared);
        all.push(compared);
    }
    for compared in all.iter_mut().filter(|compared| compared.seems_slow()) {
        eprintln!("[{host}] again, since it seems slow: {}", compared.job.label());
        compared.compare_again(options.rounds, folder)?;
        print_wrong(host, compared);
    }
    let text = report(&all);
    print!("{text}");
    // Some of the jobs are not a report of the host.
    if options.only.is_empty() {
        let file = folder.join("report.txt");
        fs::write(&file, &text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    match wrong(&all).len() {
        0 => Ok(()),
        count => Err(format!("{count} checks of {host} failed, see above")),
    }
}

fn print_wrong(host: &str, compared: &Compared) {
    compared.wrong.iter().for_each(|wrong| eprintln!("[{host}]   FAILED: {wrong}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::{ON_GGML, ON_LASTUSE, folder, job};

    #[test]
    fn slow_jobs_go_on_after_all_others() {
        let folder = folder("jobs");
        fs::create_dir_all(&folder).expect("a folder");
        let on_lastuse = |name: &str, units: &str| {
            format!("echo {name} >>${{OUT%/*}}/times; {ON_LASTUSE}; echo units_per_second={units}; exit 0")
        };
        let jobs = [("slow", "1.5"), ("fast", "2")].map(|(name, units)| job(ON_GGML, &on_lastuse(name, units)));
        run_jobs("host", &folder, &jobs, &Options { rounds: 1, ..Options::default() }).expect("all checks pass");
        let times = fs::read_to_string(folder.join("times")).expect("they were run");
        let report = fs::read_to_string(folder.join("report.txt")).expect("a report");
        let _ = fs::remove_dir_all(&folder);
        assert_eq!(times, format!("{}fast\n{}", "slow\n".repeat(3), "slow\n".repeat(6)));
        assert_eq!(report.matches("Too slow").count(), 1, "{report}");
    }
}
