//! A program with ggml-alloc and with lastuse, in turn.

use std::io::{self, IsTerminal, Write};
use std::process::Stdio;

use serde_json::json;

use crate::compare::Arguments;
use crate::launch::{Allocator, Events, FAILED, Launcher, NotStarted};
use crate::output::{last_lines, print_tables, titled};
use crate::report::{CompareRow, Samples, SizeUnit, compare_table, total_bytes};
use crate::run::budget_text;
use crate::settings::GuardUse;

/// Runs the program with both allocators.
pub fn compare(arguments: &Arguments) -> Result<(), NotStarted> {
    let runs = arguments.runs();
    let settings = arguments.settings.variables().map_err(NotStarted::failed)?;
    let mut launcher = arguments.target.launcher()?;
    launcher.guard(GuardUse::of(&settings))?;
    let (mut ggml, mut lastuse) = (Samples::default(), Samples::default());
    let mut of_lastuse = Events::default();
    for number in 0..runs {
        // Which of a pair runs first alternates, since the second may find warmer caches.
        let pair = [(Allocator::Ggml, &mut ggml), (Allocator::Lastuse, &mut lastuse)];
        let pair: Vec<_> = if number % 2 == 0 { pair.into() } else { pair.into_iter().rev().collect() };
        for (allocator, samples) in pair {
            show_progress(&format!("\rrun {} of {runs} ", number + 1));
            let settings = if allocator == Allocator::Ggml { &[] } else { settings.as_slice() };
            let events = sample(&mut launcher, allocator, settings, samples)?;
            if allocator == Allocator::Lastuse {
                of_lastuse = events;
            }
        }
    }
    show_progress("\r\x1b[K");
    let text = if arguments.json {
        let budgets = (!of_lastuse.budgets.is_empty()).then_some(&of_lastuse.budgets);
        let json = json!({ "program": launcher.name(), "ggml_alloc": ggml, "lastuse": lastuse, "budgets": budgets });
        format!("{json}\n")
    } else {
        let rows = CompareRow::of(&ggml, &lastuse);
        format!(
            "{}: {}; ratios are lastuse / ggml-alloc (lower is better)\n{}{}",
            launcher.name(),
            if runs == 1 { "1 run each".to_owned() } else { format!("{runs} runs each, medians") },
            titled(&compare_table(&rows)),
            budget_text(&of_lastuse, &arguments.settings, SizeUnit::Mib)
        )
    };
    print_tables(&text).map_err(NotStarted::failed)
}

fn show_progress(text: &str) {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "{text}");
    }
}

fn sample(
    launcher: &mut Launcher,
    allocator: Allocator,
    settings: &[(&'static str, String)],
    samples: &mut Samples,
) -> Result<Events, NotStarted> {
    let lost = |error: io::Error| NotStarted::failed(format!("cannot wait for the program: {error}"));
    let messages = tempfile::NamedTempFile::new_in(launcher.folder()).map_err(lost)?;
    let stderr = messages.reopen().map_err(lost)?;
    let run = launcher.start(allocator, |command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).envs(settings.iter().cloned());
    })?;
    let exit = run.child.wait().map_err(lost)?;
    let printed = || String::from_utf8_lossy(&std::fs::read(messages.path()).unwrap_or_default()).into_owned();
    if !exit.status.success() {
        let name = if allocator == Allocator::Lastuse { "lastuse" } else { "ggml-alloc" };
        let last = last_lines(&printed());
        let last = if last.is_empty() { ", and printed nothing".to_owned() } else { format!(":\n{last}") };
        let message = format!("{} failed with {name} ({}){last}", launcher.name(), exit.status);
        return Err(NotStarted { code: FAILED, message });
    }
    let events = Events::read(&run.events);
    launcher.keep_for_survivors(&run.events);
    let rows = events.rows();
    let is_served =
        allocator == Allocator::Ggml || events.not_served.is_empty() || rows.iter().any(|it| it.plans.is_some());
    if rows.is_empty() || !is_served {
        return Err(NotStarted::failed(format!("{}: {}", launcher.name(), events.nothing_planned())));
    }
    samples.add(total_bytes(&rows), exit.peak_bytes, exit.time.as_secs_f64());
    Ok(events)
}
