//! `lastuse run`: runs a program with lastuse in place of its ggml-alloc, and reports its buffers.

pub mod accounting;
mod files;
mod live;
mod report;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use accounting::{Accountings, Form, Written};
use files::{Captures, Dumps};
use lastuse::report::explain::Explanation;
use lastuse::settings::{SETTINGS, means_off, variables};
use live::{Feed, Live};
use report::Ended;
pub use report::budget_text;

use crate::launch::{Allocator, Events, Exit, FAILED, Launcher, NotStarted, Target, keep_order};
use crate::output::{Output, by_ending, is_stream, print, print_error, print_notice, print_report};
use crate::settings::{GuardUse, Settings};
use crate::usage::Failure;

/// The variable that switches lastuse off.
const SWITCH: &str = "LASTUSE";

/// The variable with the file of what devices hold.
const ACCOUNTING: &str = "LASTUSE_ACCOUNTING";

/// The variable with the file of what they hold now.
const LIVE: &str = "LASTUSE_LIVE";

const EXAMPLES: &str = "Examples:
  lastuse run ./llama-cli -m model.gguf -p Hello
  lastuse run --off ./llama-cli -m model.gguf       with ggml-alloc, to compare
  lastuse run --accounting ./llama-cli ...          what each device holds
  lastuse run --accounting=memory.html ./llama-cli ...   a picture of it
  lastuse run --accounting=tensors.txt ./llama-cli ...   and every tensor
  lastuse run --live ./llama-server ...             watch it in a browser
  lastuse run --capture graphs ./llama-cli ...      its graphs, for \"explain\"
  lastuse run --explain ./llama-cli ...             why it needs so much
  lastuse run --verify ./llama-cli ...              check every plan
  lastuse run --dump 'l_out-*,kq*' ./llama-cli ...  values, for numpy.load
  lastuse run -- ./llama-cli --help                 \"--\" may come in between";

const EXIT_CODES: &str = "Exit codes: that of the program, or 128 plus the signal that killed it; 125 wrong usage, or lastuse failed, 126 the program is not \
executable, 127 there is no such program.";

/// Run a program with lastuse, and report its memory.
///
/// lastuse takes the place of the program's ggml-alloc. Works with unchanged programs that use ggml as a shared library
/// (libggml-base.so), such as those of llama.cpp, and with scripts that start one. Put options of lastuse before the
/// program; everything after it is passed on.
///
/// When the program exits, lastuse prints its time, its peak resident memory and a table to standard error: what each device held
/// at its peak, as weights, caches (kv), compute buffers, other buffers and rounding. Below the table it says how much of the
/// host's memory was resident, and what the device would have held with ggml-alloc.
///
/// --report adds a table with a line for each buffer of each allocator: its size, the lower bound, the size with ggml-alloc, the
/// saving, the number of plans, and the microseconds that planning took; and the graphs that each allocator has planned.
///
/// --accounting adds two tables with exact bytes: the devices, with the memory that each reported as free, and every buffer. If it
/// names a file, that becomes a page with pictures of the graphs and all tensors, or, by its ending (.json, .txt), a list of the
/// tensors.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\nEnvironment:\n{}\n\n{EXIT_CODES}", variables()))]
pub struct Arguments {
    /// Use ggml-alloc: lastuse forwards every call, and only reports.
    #[arg(long, conflicts_with_all = ["capture", "accounting", "live", "explain", "verify", "rules", "effort", "reorder", "budget", "recompute", "retain", "dump", "on_demand", "arena", "recycle"])]
    off: bool,

    /// Write every graph that is planned to this folder; "DIR/%s.jsonl.gz" compresses them
    ///
    /// Graphs of earlier runs stay in the folder, and commands read them too: use a new one for each setting.
    ///
    /// Nodes are captured in the program's order: ggml's Vulkan backend, which runs them in another one, is told to keep it
    /// (GGML_VK_DISABLE_GRAPH_OPTIMIZE=1).
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,

    /// Report what the devices hold and, if a file is named, draw the memory over time as an HTML page, or write all tensors
    /// to a file that ends in .json or .txt.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    accounting: Option<Option<PathBuf>>,

    /// Serve a page for browsers of this machine that follows the program while it runs: what the devices hold, by class and
    /// over time, how much of it is resident, and the graph that was planned last
    ///
    /// Prints its address to standard error. It listens on 127.0.0.1 alone, on PORT or on any free port.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, value_parser = port)]
    live: Option<Option<u16>>,

    /// Explain the graph with the largest plan, as "lastuse explain" does.
    #[arg(long)]
    explain: bool,

    /// Write the values of the tensors with these names after each run, as arrays of NumPy.
    #[arg(long, value_name = "NAMES")]
    dump: Option<String>,

    /// The folder of these arrays, which must be empty or missing [default: lastuse-dump]
    #[arg(long, value_name = "DIR", requires = "dump")]
    dump_dir: Option<PathBuf>,

    #[command(flatten)]
    settings: Settings,

    /// Print the buffers of each allocator and the graphs that it has planned, too.
    #[arg(long)]
    report: bool,

    /// Print sizes in bytes instead of MiB.
    #[arg(long)]
    bytes: bool,

    /// Print JSON as the last line of standard output, after those of the program, instead of the table.
    #[arg(long)]
    json: bool,

    /// Write the table to this file (*.txt), or JSON (*.json), instead of standard error.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print how the program is started, and a line for each plan (LASTUSE_LOG=info).
    #[arg(short, long)]
    verbose: bool,

    #[command(flatten)]
    target: Target,
}

/// Runs the program. Wrong options and unwritable files are reported before it starts.
pub fn run(mut arguments: Arguments) -> Result<ExitCode, Failure> {
    arguments.off = arguments.off || is_switched_off();
    match run_program(&arguments) {
        Ok(code) => Ok(code),
        Err(not_started) => Err(Failure::with_code(not_started.code, not_started.message)),
    }
}

/// Parses a port.
fn port(text: &str) -> Result<u16, String> {
    text.parse()
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| format!("{text:?} is not a port: give a number from 1 to 65535"))
}

/// Returns whether LASTUSE switches lastuse off, and says so, or that it has no effect: the program does not get the variable.
fn is_switched_off() -> bool {
    let Some(word) = std::env::var_os(SWITCH) else { return false };
    if word.to_str().is_some_and(means_off) {
        print_notice("LASTUSE=off is set, so the program runs on ggml-alloc, as with --off");
        return true;
    }
    let setting = SETTINGS.iter().find(|setting| setting.variable.to_str() == Ok(SWITCH));
    if let Some(why) = setting.and_then(|setting| setting.check(&word).err()) {
        print_notice(&format!("{SWITCH} has no effect: {why}"));
    }
    false
}

fn run_program(arguments: &Arguments) -> Result<ExitCode, NotStarted> {
    let settings = arguments.settings.variables().map_err(NotStarted::failed)?;
    let is_json = arguments.is_json()?;
    let output = arguments.output.as_ref().map(|file| Output::open(file)).transpose().map_err(NotStarted::failed)?;
    let to = accounting::open(arguments.accounting.as_ref().and_then(Option::as_deref))?;
    let mut launcher = arguments.target.launcher()?;
    let live = arguments.live.map(Live::listen).transpose()?;
    let requests = arguments.requests(&launcher, to.as_ref().map(|(form, _)| *form))?;
    let feed = requests.feed(&launcher, live.is_some())?;
    let is_told = requests.accountings.is_some() || live.is_some();
    let guard = GuardUse::of(&settings).max(if is_told { GuardUse::IfThere } else { GuardUse::None });
    launcher.guard(if requests.dumps.is_some() { GuardUse::Needed } else { guard })?;
    let allocator = if arguments.off { Allocator::Ggml } else { Allocator::Lastuse };
    if arguments.verbose {
        print_notice(&launcher.describe());
    }
    let mut run = launcher.start(allocator, |command| {
        arguments.prepare(command, settings, &requests);
        if let Some(feed) = &feed {
            command.env(LIVE, feed.file());
        }
    })?;
    if let Some((live, feed)) = live.zip(feed) {
        print_notice(&format!("the page of {} is at {}", launcher.name(), live.url()));
        live.follow(feed);
    }
    let process = run.child.id();
    if matches!(to, Some((Form::Page, _))) {
        run.child.watch();
    }
    let exit = run.child.wait().map_err(|error| NotStarted::failed(format!("cannot wait for the program: {error}")))?;
    let files = Files { is_json, output, to };
    let reported = report(arguments, &mut launcher, &run.events, &exit, process, &requests, files);
    if let Err(message) = reported {
        print_error(&message);
        return Ok(if exit.status.success() { ExitCode::from(FAILED) } else { exit_code(exit.status) });
    }
    Ok(exit_code(exit.status))
}

/// Where the reports go.
struct Files {
    is_json: bool,
    output: Option<Output>,
    /// The file of `--accounting`.
    to: Option<(Form, Output)>,
}

/// Writes the reports of a program that has ended, whose number was `process`.
fn report(
    arguments: &Arguments,
    launcher: &mut Launcher,
    events: &Path,
    exit: &Exit,
    process: u32,
    requests: &Requests,
    files: Files,
) -> Result<(), String> {
    let Files { is_json, output, to } = files;
    let survivors = launcher.keep_for_survivors(events);
    let events = Events::read(events);
    let launcher = &*launcher;
    let written = requests.accountings.as_ref().map(Accountings::read).transpose();
    let explained = requests.captures.as_ref().filter(|_| arguments.explain).map(explain_largest).transpose();
    written.and_then(|written| {
        let explanation = explained?.flatten();
        let ended = Ended {
            arguments,
            launcher,
            exit,
            events: &events,
            survivors: &survivors,
            requests,
            written: written.as_deref(),
            explanation,
        };
        let text = if is_json { ended.json() } else { ended.text() };
        write_report(&text, output, is_json)?;
        let mut written = written.unwrap_or_default();
        if let Some(own) = written.iter_mut().find(|written| written.accounting.process == process) {
            own.accounting.resident = exit.resident.clone();
        }
        match (to, &requests.captures) {
            (Some((Form::Page, page)), Some(captures)) => draw(captures, &launcher.name(), &written, page),
            (Some((Form::Json, file)), _) => file.write(accounting::json_text(&written).as_bytes()),
            (Some((Form::Text, file)), _) => file.write(accounting::tables_with_tensors(&written).as_bytes()),
            _ => Ok(()),
        }
    })
}

/// The files that the program writes.
struct Requests {
    captures: Option<Captures>,
    dumps: Option<Dumps>,
    /// The memory of the devices.
    accountings: Option<Accountings>,
}

impl Requests {
    /// Returns what a page can tell while the program runs, if there is one.
    fn feed(&self, launcher: &Launcher, is_live: bool) -> Result<Option<Feed>, NotStarted> {
        let captures = self.captures.clone().filter(|_| is_live);
        let feed = captures.map(|captures| Feed::new(launcher.name(), launcher.folder(), captures));
        feed.transpose().map_err(NotStarted::failed)
    }
}

impl Arguments {
    fn requests(&self, launcher: &Launcher, to: Option<Form>) -> Result<Requests, NotStarted> {
        let dumps = self.dump.as_ref().map(|names| Dumps::new(names, self.dump_dir.as_deref())).transpose()?;
        // The program writes no accounting on ggml-alloc, and to the file of the user if that is set.
        let is_recorded = self.accounting.is_some() || (!self.off && std::env::var_os(ACCOUNTING).is_none());
        let accountings = is_recorded.then(|| Accountings::new(launcher.folder())).transpose()?;
        let is_read = self.explain || self.live.is_some() || matches!(to, Some(Form::Page));
        Ok(Requests { captures: self.captures(launcher, is_read)?, dumps, accountings })
    }

    /// Returns whether the report is JSON: by the ending of its file, or by the option.
    fn is_json(&self) -> Result<bool, NotStarted> {
        let file = self.output.as_deref().filter(|file| !is_stream(file));
        let by_name = file.map(|file| by_ending(file, &[(".json", true), (".txt", false)])).transpose();
        match by_name.map_err(|why| NotStarted::failed(format!("--output: {why}")))? {
            Some(false) if self.json => {
                Err(NotStarted::failed("--json writes to a file that ends in .json, not in .txt"))
            }
            by_name => Ok(by_name.unwrap_or(self.json)),
        }
    }

    /// Returns where captures go, which pictures and explanations are made from, too.
    fn captures(&self, launcher: &Launcher, is_read: bool) -> Result<Option<Captures>, NotStarted> {
        match (&self.capture, is_read) {
            (Some(path), _) => Captures::new(path).map(Some),
            (None, true) => Captures::new(&launcher.folder().join("graphs")).map(Some),
            (None, false) => Ok(None),
        }
    }

    fn prepare(&self, command: &mut Command, settings: Vec<(&str, String)>, requests: &Requests) {
        command.envs(settings);
        if self.verbose && std::env::var_os("LASTUSE_LOG").is_none() {
            command.env("LASTUSE_LOG", "info");
        }
        if let Some(captures) = &requests.captures {
            command.env("LASTUSE_CAPTURE", &captures.names);
        }
        if self.capture.is_some() {
            keep_order(command);
        }
        if let Some(accountings) = &requests.accountings {
            command.env(ACCOUNTING, accountings.file());
        }
        if let Some(dumps) = &requests.dumps {
            command.env("LASTUSE_DUMP", &dumps.pattern).env("LASTUSE_DUMP_DIR", &dumps.folder);
        }
    }
}

fn write_report(text: &str, output: Option<Output>, is_json: bool) -> Result<(), String> {
    match output {
        Some(output) => output.write(anstream::adapter::strip_str(text).to_string().as_bytes()),
        // Apart from what the program prints to the standard error, and on a line of its own, even if the last line of the
        // program has no end.
        None if is_json => print(format!("\n{text}").as_bytes()),
        None => {
            print_report(text);
            Ok(())
        }
    }
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    ExitCode::from(u8::try_from(code).unwrap_or(FAILED))
}

/// Explains the captured graph with the largest plan; `None` if there is no graph.
fn explain_largest(captures: &Captures) -> Result<Option<Explanation>, String> {
    super::explain::largest(&captures.files()?)
}

/// Draws all captured graphs, with the memory of the devices.
fn draw(captures: &Captures, program: &str, written: &[Written], picture: Output) -> Result<(), String> {
    let files = captures.files()?;
    if files.is_empty() {
        picture.discard();
        return Err("no picture was drawn: the program planned no graph".to_owned());
    }
    let accountings: Vec<_> = written.iter().map(|written| &written.accounting).collect();
    picture.write(super::draw::page(&files, program, &accountings)?.as_bytes())
}
