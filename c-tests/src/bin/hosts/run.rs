//! One run of a job.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use lastuse_c_tests::{Outcome, Program, Result};

use crate::counted::Counted;
use crate::job::{Job, Launch, OUTPUT};

/// What a run gave.
#[derive(Debug)]
pub struct Run {
    /// All results of the program.
    pub results: Vec<u8>,
    /// What its allocators held.
    pub counted: Counted,
    /// How fast it was.
    pub units_per_second: f64,
    /// The most bytes of memory that were resident, if the program prints them as `peak_resident=`.
    pub peak_resident: Option<u64>,
}

/// Runs a job once; files go to `folder`.
///
/// # Errors
/// When the program fails, has no results, or prints no speed.
pub fn run(job: &Job, launch: &Launch, folder: &Path) -> Result<Run> {
    let Ended { outcome, results, counted } = run_to_its_end(job, launch, folder, &[])?;
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
        peak_resident: outcome.value("peak_resident").and_then(|value| value.parse().ok()),
    })
}

/// How a run ended, well or not.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code and what it printed.
    pub outcome: Outcome,
    /// What it had written of its results.
    pub results: Vec<u8>,
    /// What its allocators held; `None` if there is no report.
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
    let counted = if job.is_parallel { counted.map(Counted::without_overlap) } else { counted };
    Ok(Ended { outcome, results: fs::read(&output).unwrap_or_default(), counted })
}
