//! `lastuse run`: a program with lastuse in front of its ggml, and what its allocators took.

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use lastuse::graph::RuleSetting;
use lastuse::report::run_table;
use serde_json::json;

use super::launch::{Ended, Events, FAILED, Launcher, NotStarted, Server, Target};
use super::output::Output;
use super::print::complain;

/// Run a program with lastuse in front of its ggml, and tell what its allocators took.
///
/// The program is any that uses ggml as a shared library (libggml-base.so), such as llama.cpp's, unchanged; a script that
/// starts one will do. At the end a table on the standard error tells for each allocator and each of its buffers: the bytes
/// that it took, the lower bound, what ggml's own allocator would have taken, how many plans were made and how long that
/// took.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse run -- ./llama-cli -m model.gguf -p Hello
  lastuse run --off -- ./llama-cli -m model.gguf -p Hello       ggml's own allocator, to compare
  lastuse run --report memory.html -- ./llama-cli -m model.gguf  a picture of the memory
  lastuse run --capture graphs -- ./llama-cli -m model.gguf      its graphs, for plan, explain and draw
  lastuse run --verify -- ./llama-cli -m model.gguf              every plan is checked before it is used

Exit codes: that of the program, 128 and the signal when a signal ended it; 125 lastuse failed before the program started,
126 the program cannot be run, 127 there is no such program.")]
pub struct Arguments {
    /// Let ggml's own allocator serve: lastuse only looks on.
    #[arg(long, conflicts_with_all = ["capture", "report", "verify", "rules", "effort"])]
    off: bool,

    /// Write every graph that is planned to this folder, each once; "DIR/%s.jsonl.gz" compresses them.
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,

    /// Write a picture of the memory over time, one page of HTML.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// Check each plan against the graph before it is used; "memory" also checks what each operation writes.
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "plan",
          value_parser = ["plan", "memory"])]
    verify: Option<String>,

    /// Which memory may be shared: see `lastuse plan --help`.
    #[arg(long)]
    rules: Option<String>,

    /// How much work the search for a smaller plan may do: see `lastuse plan --help`.
    #[arg(long, value_name = "UNITS")]
    effort: Option<u64>,

    /// Print JSON in place of the table.
    #[arg(long)]
    json: bool,

    /// Write the table, or the JSON, to this file in place of the standard error.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    target: Target,
}

/// Runs the program. Whatever can be known to be wrong is said before it starts.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    match watch(arguments) {
        Ok(code) => Ok(code),
        Err(not_started) => {
            complain(&not_started.message);
            Ok(ExitCode::from(not_started.code))
        }
    }
}

fn watch(arguments: &Arguments) -> Result<ExitCode, NotStarted> {
    arguments.check_words()?;
    let output = arguments.output.as_ref().map(|file| writable(file)).transpose()?;
    let picture = arguments.report.as_ref().map(|file| writable(file)).transpose()?;
    let mut launcher = arguments.target.launcher()?;
    let captures = arguments.captures(&launcher)?;
    if arguments.verify.as_deref() == Some("memory") {
        launcher.guard()?;
    }
    let server = if arguments.off { Server::Ggml } else { Server::Lastuse };
    let run = launcher.start(server, |command| arguments.prepare(command, captures.as_ref()))?;
    let ended = run.child.wait().map_err(|error| NotStarted::failed(format!("lost the program: {error}")))?;
    let events = Events::read(&run.events);
    let told = tell(arguments, &launcher, &ended, &events, output).and_then(|()| match (picture, &captures) {
        (Some(picture), Some(captures)) => draw(captures, &launcher.name(), picture),
        _ => Ok(()),
    });
    if let Err(message) = told {
        complain(&message);
        return Ok(if ended.status.success() { ExitCode::from(FAILED) } else { exit_code(ended.status) });
    }
    Ok(exit_code(ended.status))
}

impl Arguments {
    /// The library only says in the program's log what it does not understand.
    fn check_words(&self) -> Result<(), NotStarted> {
        let Some(rules) = &self.rules else { return Ok(()) };
        let known: Result<RuleSetting, _> = rules.parse();
        known.map(|_| ()).map_err(|unknown| NotStarted::failed(format!("--rules: {unknown}")))
    }

    /// Where captures go: also a picture is drawn from them.
    fn captures(&self, launcher: &Launcher) -> Result<Option<Captures>, NotStarted> {
        match (&self.capture, &self.report) {
            (Some(wanted), _) => Captures::new(wanted).map(Some),
            (None, Some(_)) => Captures::new(&launcher.folder().join("graphs")).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn prepare(&self, command: &mut Command, captures: Option<&Captures>) {
        let mut set = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                command.env(name, value);
            }
        };
        set("LASTUSE_VERIFY", self.verify.clone());
        set("LASTUSE_RULES", self.rules.clone());
        set("LASTUSE_EFFORT", self.effort.map(|units| units.to_string()));
        if let Some(captures) = captures {
            command.env("LASTUSE_CAPTURE", &captures.names);
        }
    }
}

/// Where the graphs of a program go.
struct Captures {
    folder: PathBuf,
    /// The folder, or how files in it are named.
    names: PathBuf,
}

impl Captures {
    /// Makes the folder, and makes sure that files can be written in it. The program may change its own folder.
    fn new(wanted: &Path) -> Result<Self, NotStarted> {
        let pattern = wanted.file_name().filter(|name| name.to_string_lossy().contains("%s"));
        let folder = if pattern.is_some() { wanted.parent().unwrap_or(wanted) } else { wanted };
        let folder = if folder == Path::new("") { Path::new(".") } else { folder };
        let wrong = |error: io::Error| NotStarted::failed(format!("{}: cannot be written: {error}", folder.display()));
        let made = std::fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
        let made = made.and_then(|folder| tempfile::tempfile_in(&folder).map(|_| folder)).map_err(wrong)?;
        let names = pattern.map_or_else(|| made.clone(), |pattern| made.join(pattern));
        Ok(Self { folder: made, names })
    }

    /// The graphs that are there, those of earlier runs included.
    fn files(&self) -> Result<Vec<PathBuf>, String> {
        let wrong = |error: io::Error| format!("{}: {error}", self.folder.display());
        let entries: Result<Vec<_>, _> = std::fs::read_dir(&self.folder).map_err(wrong)?.collect();
        let mut files: Vec<PathBuf> = entries.map_err(wrong)?.iter().map(std::fs::DirEntry::path).collect();
        let is_graph = |file: &PathBuf| {
            let name = file.to_string_lossy();
            name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")
        };
        files.retain(is_graph);
        files.sort();
        Ok(files)
    }
}

/// Says that a file cannot be written before anything starts.
fn writable(path: &Path) -> Result<Output, NotStarted> {
    Output::open(path).map_err(NotStarted::failed)
}

fn tell(
    arguments: &Arguments,
    launcher: &Launcher,
    ended: &Ended,
    events: &Events,
    output: Option<Output>,
) -> Result<(), String> {
    let text = if arguments.json {
        let rows = events.rows();
        let json = json!({
            "program": launcher.name(),
            "exit_code": ended.status.code(),
            "signal": ended.status.signal(),
            "seconds": ended.time.as_secs_f64(),
            "peak_resident_bytes": ended.peak_bytes,
            "server": if arguments.off { "ggml-alloc" } else { "lastuse" },
            "ggml": events.ggml,
            "allocators": rows,
        });
        format!("{json}\n")
    } else {
        summary(launcher, ended, events)
    };
    match output {
        Some(output) => output.write(text.as_bytes()),
        // There is nobody left to tell when standard error is closed.
        None => {
            let _ = io::stderr().write_all(text.as_bytes());
            Ok(())
        }
    }
}

fn summary(launcher: &Launcher, ended: &Ended, events: &Events) -> String {
    let name = launcher.name();
    let end = match (ended.status.code(), ended.status.signal()) {
        (Some(0), _) => "ended well".to_owned(),
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
    };
    let head = format!("lastuse: {name} {end} after {:.2} s", ended.time.as_secs_f64());
    let rows = events.rows();
    if rows.is_empty() {
        return format!("{head}; {}\n", nothing_planned(events));
    }
    let version = events.ggml.as_ref().map_or_else(String::new, |version| format!("; ggml {version}"));
    format!("{head}{version}\n{}", run_table(&rows))
}

/// Why there is nothing to tell.
pub fn nothing_planned(events: &Events) -> &'static str {
    if events.any {
        "it made an allocator, but planned no graph"
    } else {
        "no allocator of ggml was asked for: it uses no ggml, or one that is linked statically into one of its libraries, \
         or it clears its environment"
    }
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    ExitCode::from(u8::try_from(code).unwrap_or(FAILED))
}

/// Draws all graphs that were captured.
fn draw(captures: &Captures, program: &str, picture: Output) -> Result<(), String> {
    let files = captures.files()?;
    if files.is_empty() {
        picture.give_up();
        return Err("there is no picture, since the program planned no graph".to_owned());
    }
    picture.write(super::draw::page(&files, &format!("The memory of {program}"))?.as_bytes())
}
