//! Which allocator serves a program, and with how many bytes: as lastuse reports it.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::prefix::root;
use crate::{Outcome, Program, Result};

/// What a program did, and what served it.
#[derive(Clone, Debug)]
pub struct Served {
    /// How it ended.
    pub outcome: Outcome,
    /// `lastuse`, or `ggml-alloc`; empty if no allocator was made.
    pub server: String,
    /// The largest buffers of all allocators, in bytes.
    pub bytes: u64,
}

/// Runs a program that must end well, with these variables.
///
/// # Errors
/// How it ended otherwise.
pub fn served(program: &Path, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Result<Served> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let report = root().join(format!("report-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let _ = fs::remove_file(&report);
    let variables = [variables, &[("LASTUSE_REPORT", report.as_os_str())]].concat();
    let outcome = Program::existing(program).run_with(arguments, &variables)?;
    let text = fs::read_to_string(&report).unwrap_or_default();
    let _ = fs::remove_file(&report);
    if outcome.code != Some(0) {
        return Err(format!("{}: {}", program.display(), outcome.describe()));
    }
    let ReportedRun { server, bytes, .. } = ReportedRun::read(&text)?;
    Ok(Served { outcome, server, bytes })
}

/// A run of a program that writes its results to a file.
#[derive(Clone, Debug)]
pub struct ServedRun {
    /// What served it.
    pub served: Served,
    /// The content of the file.
    pub results: Vec<u8>,
}

/// Runs a program as [`served`] does, and reads the results that it writes to `output`.
///
/// # Errors
/// How it ended otherwise, or that it wrote nothing.
pub fn served_results(
    program: &Path,
    arguments: &[&str],
    variables: &[(&str, &OsStr)],
    output: &Path,
) -> Result<ServedRun> {
    let _ = fs::remove_file(output);
    let served = served(program, arguments, variables)?;
    let results = fs::read(output).map_err(|error| format!("{}: {error}", output.display()))?;
    if results.is_empty() { Err(format!("{} is empty", output.display())) } else { Ok(ServedRun { served, results }) }
}

/// What lastuse reports of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedRun {
    /// `lastuse`, or `ggml-alloc`; empty if no allocator was made.
    pub server: String,
    /// The version of ggml.
    pub ggml: String,
    /// The largest buffers of all allocators, in bytes.
    pub bytes: u64,
}

impl ReportedRun {
    /// Reads the events of a report.
    ///
    /// # Errors
    /// A line is not JSON.
    pub fn read(report: &str) -> Result<Self> {
        let (mut run, mut most) = (Self::default(), std::collections::BTreeMap::new());
        for line in report.lines() {
            let event: serde_json::Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
            if event["event"] == "start" {
                event["server"].as_str().unwrap_or_default().clone_into(&mut run.server);
                event["ggml"].as_str().unwrap_or_default().clone_into(&mut run.ggml);
            }
            for buffer in event["buffers"].as_array().into_iter().flatten() {
                let of = most.entry((event["allocator"].as_u64(), buffer["id"].as_u64())).or_insert(0);
                *of = buffer["bytes"].as_u64().unwrap_or(0).max(*of);
            }
        }
        run.bytes = most.values().sum();
        Ok(run)
    }
}

/// Runs a program with lastuse and with `LASTUSE=off`, and checks that each serves it in its run, that it
/// prints the same results, and that lastuse needs no more bytes. Returns the bytes of lastuse and of ggml.
///
/// # Errors
/// What does not hold.
pub fn check_served(program: &Path, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Result<[u64; 2]> {
    let with = served(program, arguments, variables)?;
    let off = served(program, arguments, &[variables, &[("LASTUSE", OsStr::new("off"))]].concat())?;
    let wrong = |what: &str| {
        let outputs = format!("{}{}", with.outcome.describe(), off.outcome.describe());
        format!(
            "{}: {what} (lastuse: {} with {} bytes; off: {} with {})\n{outputs}",
            program.display(),
            with.server,
            with.bytes,
            off.server,
            off.bytes
        )
    };
    if (with.server.as_str(), off.server.as_str()) != ("lastuse", "ggml-alloc") {
        return Err(wrong("the server is not that which is wanted"));
    }
    if with.bytes == 0 || with.bytes > off.bytes {
        return Err(wrong("lastuse has no bytes, or more than ggml"));
    }
    if results(&with.outcome).ne(results(&off.outcome)) {
        return Err(wrong("the results differ"));
    }
    Ok([with.bytes, off.bytes])
}

/// Returns the lines that a program prints, but for the bytes of its buffer.
pub fn results(outcome: &Outcome) -> impl Iterator<Item = &str> {
    outcome.stdout.lines().filter(|line| !line.starts_with("size="))
}

/// Returns the bytes of its buffer that a program prints.
pub fn printed_size(outcome: &Outcome) -> Option<u64> {
    outcome.stdout.lines().find_map(|line| line.strip_prefix("size=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_buffers_count() {
        let report = "{\"event\":\"start\",\"server\":\"lastuse\",\"ggml\":\"1.2\"}\n\
                      {\"event\":\"plan\",\"allocator\":1,\"buffers\":[{\"id\":0,\"bytes\":5},{\"id\":1,\"bytes\":1}]}\n\
                      {\"event\":\"plan\",\"allocator\":1,\"buffers\":[{\"id\":0,\"bytes\":3}]}\n\
                      {\"event\":\"plan\",\"allocator\":2,\"buffers\":[{\"id\":0,\"bytes\":7}]}\n";
        let run = ReportedRun { server: "lastuse".to_owned(), ggml: "1.2".to_owned(), bytes: 13 };
        assert_eq!(ReportedRun::read(report), Ok(run));
        assert!(ReportedRun::read("no").is_err());
    }
}
