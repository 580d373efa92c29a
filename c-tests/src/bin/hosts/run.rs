//! One run of a job.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use lastuse_c_tests::{Program, Result};

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
}

/// Runs a job once; files go to `folder`.
///
/// # Errors
/// When the program fails, has no results, or prints no speed.
pub fn run(job: &Job, launch: &Launch, folder: &Path) -> Result<Run> {
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
    let outcome = Program::existing(&launch.program).run_with(&arguments, &variables)?;
    if outcome.code != Some(0) {
        return Err(outcome.describe());
    }
    let results = read(&output, "the program has no results")?;
    if results.is_empty() {
        return Err("the program has no results".to_owned());
    }
    let counted = read(&report, "the program used no graph allocator")?;
    let speed = outcome.value("units_per_second").and_then(|value| value.parse().ok());
    Ok(Run {
        results,
        counted: Counted::read(&String::from_utf8_lossy(&counted))?,
        units_per_second: speed.ok_or_else(|| format!("no units_per_second: {}", outcome.describe()))?,
    })
}

fn read(file: &PathBuf, without: &str) -> Result<Vec<u8>> {
    fs::read(file).map_err(|error| format!("{without} ({}: {error})", file.display()))
}
