//! A dry run of a program: it loads its model, makes its contexts and reserves its graphs without memory for them.

use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lastuse::accounting::Accounting;

use crate::launch::{Allocator, Events, FAILED, Launcher, NotStarted, keep_order};
use crate::output::last_lines;
use crate::run::accounting::Written;

/// What a program would hold.
pub struct DryRun {
    /// By process.
    pub processes: Vec<Process>,
    /// What its allocators have planned.
    pub events: Events,
    /// The peak resident memory of the dry run.
    pub peak_bytes: u64,
}

/// A process that has used ggml.
pub struct Process {
    /// What its devices would hold, each when it held the most.
    pub written: Written,
    /// How its dry run ended.
    pub end: End,
}

/// How a dry run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Whether it came to its end: what a program does next may not be known without results.
    pub is_complete: bool,
    /// The graphs that were not computed.
    pub graphs: u64,
    /// Why it ended, or was ended.
    pub why: String,
    /// What is to be said of buffers.
    pub notes: Vec<String>,
}

/// A dry run to be started.
pub struct Request<'a> {
    /// Settings of the library.
    pub settings: &'a [(&'static str, String)],
    /// Arguments of the program behind those that it has.
    pub more: &'a [String],
    /// A folder that its graphs are captured to.
    pub captures: Option<&'a Path>,
    /// Whether what it prints is shown.
    pub is_verbose: bool,
}

impl DryRun {
    /// Runs the program.
    ///
    /// # Errors
    /// It fails before it has computed anything, with its exit code and its last messages, or uses no ggml that lastuse serves.
    pub fn new(launcher: &mut Launcher, request: &Request<'_>) -> Result<Self, NotStarted> {
        let lost = |error: io::Error| NotStarted::failed(format!("a dry run failed: {error}"));
        let folder = tempfile::Builder::new().prefix("dry-run-").tempdir_in(launcher.folder()).map_err(lost)?;
        let messages = tempfile::NamedTempFile::new_in(folder.path()).map_err(lost)?;
        let stderr = messages.reopen().map_err(lost)?;
        let run = launcher.start(Allocator::Lastuse, |command| {
            prepare(command, request, folder.path());
            if !request.is_verbose {
                command.stderr(stderr);
            }
        })?;
        let exit = run.child.wait().map_err(lost)?;
        // What it has started, and what waits for it, has nothing to do any more.
        launcher.end_survivors(&run.events);
        let events = Events::read(&run.events);
        let mut processes = Process::all_in(folder.path()).map_err(NotStarted::failed)?;
        if !exit.status.success() {
            let printed = String::from_utf8_lossy(&fs::read(messages.path()).unwrap_or_default()).into_owned();
            let last = last_lines(&printed);
            let last = if last.is_empty() { String::new() } else { format!(":\n{last}") };
            // What fails without results may be an end like others.
            if let Some(process) = processes.iter_mut().find(|process| process.end.graphs > 0) {
                process.end.is_complete = false;
                process.end.why = format!("without results it failed ({}){last}", exit.status);
                return Ok(Self { processes, events, peak_bytes: exit.peak_bytes });
            }
            let name = launcher.name();
            let message = format!("{name} failed ({}){last}", exit.status);
            let code = exit.status.code().unwrap_or_else(|| 128 + exit.status.signal().unwrap_or_default());
            return Err(NotStarted { code: u8::try_from(code).unwrap_or(FAILED), message });
        }
        if processes.is_empty() {
            // It may have been ended where nothing could be written.
            let end = End::without_accounting(folder.path());
            let why = end.map_or_else(|| events.nothing_planned(), |end| format!("it is not measured: {}", end.why));
            return Err(NotStarted::failed(format!("{}: {why}", launcher.name())));
        }
        Ok(Self { processes, events, peak_bytes: exit.peak_bytes })
    }

    /// Returns what the devices of each process would hold.
    pub fn accountings(&self) -> impl Iterator<Item = &Accounting> + Clone {
        self.processes.iter().map(|process| &process.written.accounting)
    }

    /// Returns why a dry run ended where the program might have gone on otherwise, if one did.
    pub fn unknown(&self) -> Option<&End> {
        self.processes.iter().map(|process| &process.end).find(|end| !end.is_complete)
    }
}

/// Returns the value of a setting of the library, by what a request or else the environment says.
pub fn setting(settings: &[(&'static str, String)], name: &str) -> String {
    let given = settings.iter().find(|(of, _)| *of == name).map(|(_, value)| value.clone());
    given.or_else(|| std::env::var(name).ok()).unwrap_or_default()
}

/// Sets what a dry run needs in the environment of a program.
fn prepare(command: &mut Command, request: &Request<'_>, folder: &Path) {
    command.args(request.more).envs(request.settings.iter().cloned());
    command.env("LASTUSE_MEASURE", folder).env("LASTUSE_ACCOUNTING", folder.join("%p.json"));
    if let Some(captures) = request.captures {
        command.env("LASTUSE_CAPTURE", captures);
        keep_order(command);
    }
    // What is printed has no meaning. There may be several dry runs, and the input can be read once.
    command.stdout(Stdio::null()).stdin(Stdio::null());
}

impl Process {
    /// Reads what processes have written to a folder, in the order of their numbers.
    fn all_in(folder: &Path) -> Result<Vec<Self>, String> {
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        let entries: Result<Vec<_>, _> = fs::read_dir(folder).map_err(failed)?.collect();
        let files = entries.map_err(failed)?.into_iter().map(|entry| entry.path());
        let is_accounting = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "json");
        let mut all = Vec::new();
        for file in files.filter(is_accounting) {
            let written = Written::read(&file)?;
            if !written.accounting.buffers.is_empty() {
                all.push(Self { written, end: End::read(&file.with_extension("end")) });
            }
        }
        all.sort_by_key(|process| process.written.accounting.process);
        Ok(all)
    }
}

impl End {
    /// Returns that of a process that has not written what its devices would hold, if it was ended.
    fn without_accounting(folder: &Path) -> Option<Self> {
        let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let ends = files.filter(|file| file.extension().is_some_and(|ending| ending == "end"));
        ends.map(|file| Self::read(&file)).find(|end| !end.is_complete)
    }

    /// Reads how a process has ended; one that was killed has not written it.
    fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_default();
        let mut lines = text.lines();
        let kind = lines.next().unwrap_or_default();
        let graphs = lines.next().and_then(|graphs| graphs.parse().ok()).unwrap_or(0);
        let why = lines.next().unwrap_or("the program was killed").to_owned();
        let notes = lines.filter(|line| !line.is_empty()).map(str::to_owned).collect();
        Self { is_complete: ["exited", "complete"].contains(&kind), graphs, why, notes }
    }
}
