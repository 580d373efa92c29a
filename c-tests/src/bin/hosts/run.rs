//! Runs of a job: one alone, or on both allocators side by side.

use std::ffi::OsStr;
use std::path::Path;
use std::{fs, thread};

use lastuse_c_tests::{Outcome, Program, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::counted::Counted;
use crate::job::{Job, Launch, OUTPUT, Threads};

/// llama.cpp's scheduler aborts when a graph of the size that was reserved is not allocated without reserving it again.
const NO_REALLOCATION: (&str, &str) = ("GGML_SCHED_DEBUG_REALLOC", "1");

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    /// All results of the program.
    pub results: Vec<u8>,
    /// The memory that its allocators held.
    pub counted: Counted,
    /// How fast it was.
    pub units_per_second: f64,
    /// How often a scheduler reserved memory again for a graph that its allocator refused, if the program counts that and
    /// prints it as `reallocations=`.
    pub reallocations: u64,
    /// The most bytes of memory that were resident, if the program prints them as `peak_resident=`.
    pub peak_resident: Option<u64>,
}

/// Runs a job once; files go to `folder`.
///
/// # Errors
/// When the program fails, has no results, or prints no speed.
pub fn run(job: &Job, launch: &Launch, folder: &Path) -> Result<Run> {
    let more: &[_] = if job.host == "llama.cpp" && !job.may_reallocate { &[NO_REALLOCATION] } else { &[] };
    let Ended { outcome, results, counted } = run_to_its_end(job, launch, folder, more)?;
    if outcome.code != Some(0) {
        return Err(outcome.describe());
    }
    if results.is_empty() {
        return Err("the program has no results".to_owned());
    }
    let speed = outcome.value("units_per_second").and_then(|value| value.parse().ok());
    Ok(Run {
        results,
        counted: counted.ok_or("the program used no graph allocator")?,
        units_per_second: speed.ok_or_else(|| format!("no units_per_second: {}", outcome.describe()))?,
        reallocations: outcome.value("reallocations").and_then(|value| value.parse().ok()).unwrap_or(0),
        peak_resident: outcome.value("peak_resident").and_then(|value| value.parse().ok()),
    })
}

/// Runs a job on both allocators at the same time; files go to `folder`. Returns what came of it on ggml's own allocator, and
/// on lastuse.
///
/// Where one thread computes, both share one processor, another one in each `round`: the system gives it to each for a few
/// milliseconds at a time, so that what slows the machine down slows down both.
pub fn run_beside(job: &Job, round: usize, folder: &Path) -> [Result<Run>; 2] {
    let others = folder.join("ggml-alloc");
    let run_in = |launch: &Launch, folder: &Path| {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        if job.threads == Threads::One {
            use_one_processor(round)?;
        }
        run(job, launch, folder)
    };
    thread::scope(|scope| {
        // The first one begins some microseconds before the other.
        let without = || scope.spawn(|| run_in(&job.without, &others));
        let with = || scope.spawn(|| run_in(&job.with, folder));
        let (without, with) = if round.is_multiple_of(2) {
            (without(), with())
        } else {
            let with = with();
            (without(), with)
        };
        [without, with]
            .map(|run| run.join().unwrap_or_else(|_| Err("the thread that waits for it panicked".to_owned())))
    })
}

/// Lets this thread, and the programs that it starts, run on one of the processors that they may use.
fn use_one_processor(round: usize) -> Result<()> {
    let this_thread = Pid::from_raw(0);
    let failed = |error: nix::Error| format!("cannot choose a processor: {error}");
    let all = sched_getaffinity(this_thread).map_err(failed)?;
    let usable: Vec<usize> = (0..CpuSet::count()).filter(|&number| all.is_set(number).unwrap_or(false)).collect();
    let mut one = CpuSet::new();
    one.set(usable[round % usable.len()]).map_err(failed)?;
    sched_setaffinity(this_thread, &one).map_err(failed)
}

/// How a run ended, well or not.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code and output.
    pub outcome: Outcome,
    /// The results that it had written.
    pub results: Vec<u8>,
    /// The memory that its allocators held; `None` if there is no report.
    pub counted: Option<Counted>,
}

/// Runs a job once, with more variables; files go to `folder`.
///
/// # Errors
/// When the program cannot be started, or the counter's report is not understood.
pub fn run_to_its_end(job: &Job, launch: &Launch, folder: &Path, more: &[(&str, &str)]) -> Result<Ended> {
    let (output, report) = (folder.join("output"), folder.join("buffers.txt"));
    for file in [&output, &report] {
        let _ = fs::remove_file(file);
    }
    let path = output.to_string_lossy();
    let arguments: Vec<String> = job.arguments.iter().map(|argument| argument.replace(OUTPUT, &path)).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut variables: Vec<(&str, &OsStr)> =
        launch.variables.iter().map(|(name, value)| (*name, value.as_os_str())).collect();
    variables.push(("BUFFER_COUNTER_REPORT", report.as_os_str()));
    variables.extend(more.iter().map(|&(name, value)| (name, OsStr::new(value))));
    let outcome = Program::existing(&launch.program).run_with(&arguments, &variables)?;
    let counted = fs::read(&report).ok().map(|text| Counted::read(&String::from_utf8_lossy(&text))).transpose()?;
    let counted =
        if job.threads == Threads::SeveralWithAllocators { counted.map(Counted::without_overlap) } else { counted };
    Ok(Ended { outcome, results: fs::read(&output).unwrap_or_default(), counted })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::{ON_GGML, folder, job};

    /// Returns the results of two rounds, each on both allocators; `script` is what either program does.
    fn two_rounds(name: &str, threads: Threads, scripts: [&str; 2]) -> [[Vec<u8>; 2]; 2] {
        let folder = folder(name);
        let [without, with] = scripts.map(|script| format!("{ON_GGML}; {script}; echo units_per_second=2; exit 0"));
        let job = Job { threads, ..job(&without, &with) };
        let rounds = [0, 1].map(|round| run_beside(&job, round, &folder).map(|run| run.expect("a run").results));
        let _ = fs::remove_dir_all(&folder);
        rounds
    }

    #[test]
    fn one_thread_shares_a_processor_and_several_have_all() {
        let script = "grep Cpus_allowed_list: /proc/self/status >$OUT";
        let usable = fs::read_to_string("/proc/thread-self/status").expect("a status");
        let usable =
            usable.lines().find(|line| line.starts_with("Cpus_allowed_list:")).expect("a list").to_owned() + "\n";
        let several = two_rounds("several", Threads::Several, [script; 2]);
        assert!(several.iter().flatten().all(|found| found == usable.as_bytes()), "{several:?}");
        let one = two_rounds("one", Threads::One, [script; 2]);
        for [without, with] in &one {
            assert!(without == with && !without.contains(&b',') && !without.contains(&b'-'), "{one:?}");
        }
        assert_eq!(one[0] == one[1], one[0][0] == usable.as_bytes(), "rounds use other processors, if there are any");
    }

    #[test]
    fn both_run_at_the_same_time() {
        let meets = |mine: &str, other: &str| {
            format!("for i in $(seq 1000); do : >{mine}; [ -e {other} ] && echo met >$OUT && break; sleep 0.01; done")
        };
        let scripts =
            [meets("${OUT%/*}/there", "${OUT%/*}/../here"), meets("${OUT%/*}/here", "${OUT%/*}/ggml-alloc/there")];
        let found = two_rounds("meeting", Threads::One, scripts.each_ref().map(String::as_str));
        assert!(found.iter().flatten().all(|results| results == b"met\n"), "{found:?}");
    }
}
