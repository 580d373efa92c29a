//! `lastuse compare`: a program with ggml's own allocator and with lastuse, in turn.

use std::io::{self, IsTerminal, Write};
use std::process::{ExitCode, Stdio};

use lastuse::report::{CompareRow, Samples, compare_table, total_bytes};
use serde_json::json;

use super::launch::{Events, FAILED, Launcher, NotStarted, Server, Target};
use super::print::{complain, print};
use super::run::nothing_planned;

/// Run a program several times with ggml's own allocator and with lastuse, in turn, and compare.
///
/// Prints the bytes of its compute buffers, its peak resident memory and its time, each the median of all runs, with
/// the ratio of lastuse to ggml. What the program prints is not shown; it reads no input.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse compare -- ./llama-bench -m model.gguf -p 512 -n 32
  lastuse compare --runs 10 --json -- ./sd -m model.safetensors -p \"a cat\"

Exit codes: 0 compared, 125 the program failed in one of the runs or lastuse failed, 126 the program cannot be run, 127
there is no such program.")]
pub struct Arguments {
    /// How often the program runs with each of the two.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// Print JSON, with every run, in place of the table.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

/// Runs the program again and again.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    match compare(arguments) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(not_started) => {
            complain(&not_started.message);
            Ok(ExitCode::from(not_started.code))
        }
    }
}

fn compare(arguments: &Arguments) -> Result<(), NotStarted> {
    let mut launcher = arguments.target.launcher()?;
    let (mut ggml, mut lastuse) = (Samples::default(), Samples::default());
    for number in 0..arguments.runs {
        // The first of a pair may find a colder machine: they take turns.
        let pair = [(Server::Ggml, &mut ggml), (Server::Lastuse, &mut lastuse)];
        let pair: Vec<_> = if number % 2 == 0 { pair.into() } else { pair.into_iter().rev().collect() };
        for (server, samples) in pair {
            say(&format!("\rrun {} of {} ", number + 1, arguments.runs));
            sample(&mut launcher, server, samples)?;
        }
    }
    say("\r\x1b[K");
    let text = if arguments.json {
        let json = json!({ "program": launcher.name(), "ggml_alloc": ggml, "lastuse": lastuse });
        format!("{json}\n")
    } else {
        let rows = CompareRow::of(&ggml, &lastuse);
        format!("{}: {} runs each, medians\n{}", launcher.name(), arguments.runs, compare_table(&rows))
    };
    print(text.as_bytes()).map_err(NotStarted::failed)
}

fn say(text: &str) {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "{text}");
    }
}

fn sample(launcher: &mut Launcher, server: Server, samples: &mut Samples) -> Result<(), NotStarted> {
    let lost = |error: io::Error| NotStarted::failed(format!("lost the program: {error}"));
    let messages = tempfile::NamedTempFile::new_in(launcher.folder()).map_err(lost)?;
    let stderr = messages.reopen().map_err(lost)?;
    let run = launcher.start(server, |command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    })?;
    let ended = run.child.wait().map_err(lost)?;
    let said = || String::from_utf8_lossy(&std::fs::read(messages.path()).unwrap_or_default()).into_owned();
    if !ended.status.success() {
        let who = if server == Server::Lastuse { "lastuse" } else { "ggml's own allocator" };
        let message = format!("{} failed with {who} ({}):\n{}", launcher.name(), ended.status, last_lines(&said()));
        return Err(NotStarted { code: FAILED, message });
    }
    let events = Events::read(&run.events);
    let rows = events.rows();
    if rows.is_empty() {
        return Err(NotStarted::failed(format!("{}: {}", launcher.name(), nothing_planned(&events))));
    }
    samples.add(total_bytes(&rows), ended.peak_bytes, ended.time.as_secs_f64());
    Ok(())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
