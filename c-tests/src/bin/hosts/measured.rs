//! What `lastuse measure` says of a job, compared with what its run holds.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use lastuse_c_tests::{Program, Result, tool};
use serde_json::Value;

use crate::job::{Job, OUTPUT, Threads, Way};
use crate::jobs::Options;

/// What is compared of each device, in bytes.
const CLASSES: [&str; 6] = ["weights", "kv", "compute", "other", "rounding", "total"];

/// The most bytes that a dry run has resident, beside what the program's own tables take.
const MOST_RESIDENT: u64 = 300 << 20;

/// Measures the preloaded jobs, and runs each: the bytes of each device must be the same in all classes.
///
/// # Errors
/// A failed check.
pub fn measure_jobs(host: &str, folder: &Path, jobs: &[&Job], options: &Options) -> Result<()> {
    // Which of several threads hold their buffers at the same time depends on how long each computes.
    let is_wanted =
        |job: &&&Job| job.way == Way::Preloaded && job.threads != Threads::SeveralWithAllocators && options.names(job);
    let wanted: Vec<&&Job> = jobs.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        return Err(format!("no job of {host} that can be measured has the words {:?}", options.only));
    }
    let mut wrong = 0;
    for (number, job) in wanted.iter().enumerate() {
        eprintln!("[{host}] measured, {} of {}: {}", number + 1, wanted.len(), job.label());
        match Measured::of(job, folder).and_then(|measured| measured.compare()) {
            Ok(line) => println!("{}: {line}", job.label()),
            Err(why) => {
                eprintln!("[{host}]   FAILED: {}: {why}", job.label());
                wrong += 1;
            }
        }
    }
    if wrong == 0 { Ok(()) } else { Err(format!("{wrong} jobs of {host} are measured wrongly, see above")) }
}

/// A program whose dry run is compared with its run.
pub struct Measured<'a> {
    pub tool: Program,
    pub program: &'a Path,
    pub arguments: Vec<String>,
    pub variables: Vec<(&'a str, &'a OsStr)>,
    /// Where files are written.
    pub folder: &'a Path,
}

impl<'a> Measured<'a> {
    /// The program of a job: the tool preloads lastuse, and nothing is counted by other means.
    ///
    /// # Errors
    /// The tool cannot be built.
    pub fn of(job: &'a Job, folder: &'a Path) -> Result<Self> {
        let output = folder.join("measured");
        let path = output.to_string_lossy();
        let libraries = job.with.variables.iter().filter(|(name, _)| *name == "LD_LIBRARY_PATH");
        Ok(Self {
            tool: Program::existing(&tool()?),
            program: &job.with.program,
            arguments: job.arguments.iter().map(|argument| argument.replace(OUTPUT, &path)).collect(),
            variables: libraries.map(|(name, value)| (*name, value.as_os_str())).collect(),
            folder,
        })
    }

    /// Calls `lastuse run` or `lastuse measure`, and returns what it says in JSON.
    ///
    /// # Errors
    /// It fails.
    pub fn call(&self, command: &str) -> Result<Value> {
        let report = self.folder.join("measured.json");
        let _ = fs::remove_file(&report);
        let (file, program) = (report.to_string_lossy(), self.program.to_string_lossy());
        let options = [command, "--json", "--output", &*file, &*program];
        let words: Vec<&str> = options.into_iter().chain(self.arguments.iter().map(String::as_str)).collect();
        let outcome = self.tool.run_with(&words, &self.variables)?;
        let text = fs::read_to_string(&report).unwrap_or_default();
        let json: Option<Value> = serde_json::from_str(&text).ok().filter(|_| outcome.code == Some(0));
        json.ok_or_else(|| format!("lastuse {command}: {}", outcome.describe()))
    }

    /// Runs the program and measures it. Returns the bytes of its devices.
    ///
    /// # Errors
    /// They differ, or one of both fails.
    pub fn compare(&self) -> Result<String> {
        let (run, measured) = (self.call("run")?, self.call("measure")?);
        let [process] = measured["processes"].as_array().map(Vec::as_slice).unwrap_or_default() else {
            return Err("not one process was measured".to_owned());
        };
        let sums = |devices: &Value| -> Vec<(String, [Option<u64>; 6])> {
            let devices = devices.as_array().into_iter().flatten();
            devices
                .map(|it| (it["name"].as_str().unwrap_or_default().to_owned(), CLASSES.map(|class| it[class].as_u64())))
                .collect()
        };
        let (found, expected) = (sums(&process["devices"]), sums(&run["devices"]));
        if found.is_empty() || found != expected {
            return Err(format!("{CLASSES:?}: measured {found:?}, and held {expected:?}"));
        }
        let resident = measured["peak_resident_bytes"].as_u64().unwrap_or(u64::MAX);
        if resident > MOST_RESIDENT {
            return Err(format!("{resident} bytes were resident while it was measured"));
        }
        let texts = found.iter().map(|(name, sums)| format!("{name} {} bytes", sums[5].unwrap_or_default()));
        Ok(format!("{}, as in its run", texts.collect::<Vec<_>>().join(", ")))
    }
}
