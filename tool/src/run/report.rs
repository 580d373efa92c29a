//! The report of a program that has ended.

use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;

use lastuse::report::explain::{DEFAULT_TOP, Explanation, explanation_text};
use serde_json::{Value, json};

use crate::launch::{Budget, Events, Exit, Launcher};
use crate::output::{counted, titled};
use crate::report::{SizeUnit, arena_line, explanation_json, graph_lines, run_table};
use crate::run::accounting::Written;
use crate::run::{Arguments, Requests, accounting};
use crate::settings::Settings;

/// A program that has ended, and the requested reports.
pub struct Ended<'a> {
    pub arguments: &'a Arguments,
    pub launcher: &'a Launcher,
    pub exit: &'a Exit,
    pub events: &'a Events,
    /// The processes that outlive the program.
    pub survivors: &'a [u32],
    pub requests: &'a Requests,
    /// The memory of the devices of its processes, if that was recorded.
    pub written: Option<&'a [Written]>,
    /// The graph with the largest plan, if requested.
    pub explanation: Option<Explanation>,
}

impl Ended<'_> {
    /// Formats the report as JSON.
    pub fn json(&self) -> String {
        let Self { arguments, launcher, exit, events, survivors, requests, written, explanation } = self;
        let explanation = explanation.as_ref().and_then(|it| explanation_json(it).ok());
        let json = json!({
            "program": launcher.name(),
            "exit_code": exit.status.code(),
            "signal": exit.status.signal(),
            "seconds": exit.time.as_secs_f64(),
            "peak_resident_bytes": exit.peak_bytes,
            "server": if arguments.off { "ggml-alloc" } else { "lastuse" },
            "ggml": events.ggml,
            "not_served": events.not_served,
            "allocators": events.rows(),
            "verification": self.verification_json(),
            "budgets": (!events.budgets.is_empty()).then_some(&events.budgets),
            "retained": self.arguments.settings.retain.as_ref().map(|_| self.events.retained()),
            "still_running": survivors,
            "dump": requests.dumps.as_ref().map(|dumps| dumps.json(&events.dumps)),
            "devices": written.map(|written| accounting::sums(written, &events.rows())),
            "explanation": explanation.and_then(|text| serde_json::from_str::<Value>(&text).ok()),
            "accounting": written.filter(|_| arguments.accounting.is_some()).map(accounting::values),
        });
        format!("{json}\n")
    }

    /// Formats the report as tables, whose titles are bold, and lines. There is one table, unless more is asked for: that of
    /// the devices, or where nothing is known of them that of the buffers.
    pub fn text(&self) -> String {
        let Self { arguments, events, requests, written, .. } = self;
        let unit = if arguments.bytes { SizeUnit::Bytes } else { SizeUnit::Mib };
        let mut text = self.head(unit);
        let rows = events.rows();
        let devices = written.map(|written| accounting::devices(written, &rows, unit)).unwrap_or_default();
        text += &devices;
        if !rows.is_empty() && (devices.is_empty() || arguments.report) {
            text += &titled(&run_table(&rows, unit));
        }
        if arguments.report {
            text += &graph_lines(&rows);
        }
        text += &self.unknown_devices();
        text += &arena_line(&rows);
        text += &self.survivors_text();
        text += &self.verification_text();
        text += &self.retention_text();
        text += &budget_text(events, &arguments.settings, unit);
        let tables = written.filter(|_| arguments.accounting.is_some()).map(accounting::tables);
        let explanation = self.explanation.as_ref().map(|explanation| explanation_text(explanation, DEFAULT_TOP));
        for part in [tables, explanation].into_iter().flatten() {
            let _ = write!(text, "\n{part}");
        }
        if let Some(captures) = requests.captures.as_ref().filter(|_| arguments.capture.is_some()) {
            text += &captures.summary();
        }
        if let Some(dumps) = &requests.dumps {
            text += &dumps.summary(&events.dumps);
        }
        text
    }

    fn head(&self, unit: SizeUnit) -> String {
        let Self { launcher, exit, events, .. } = self;
        let end = match (exit.status.code(), exit.status.signal()) {
            (Some(0), _) => "exited normally".to_owned(),
            (Some(code), _) => format!("exited with code {code}"),
            (None, signal) => format!("was killed by signal {}", signal.unwrap_or_default()),
        };
        let head = format!("lastuse: {} {end} after {:.2} s", launcher.name(), exit.time.as_secs_f64());
        if events.rows().is_empty() {
            if events.not_served.is_empty() && !exit.status.success() {
                return format!("{head}, before it planned a graph of ggml: see its messages above\n");
            }
            return format!("{head}; {}\n", events.nothing_planned());
        }
        let version = events.ggml.as_ref().map_or_else(String::new, |version| format!("; ggml {version}"));
        let peak = unit.text(exit.peak_bytes);
        let not_served: String = events.not_served.iter().map(|why| format!("lastuse: {why}\n")).collect();
        format!("{head}{version}; peak resident memory {peak} {}\n{not_served}", unit.name())
    }

    /// Says why only the buffers of allocators are known, where there is no table of devices.
    fn unknown_devices(&self) -> String {
        let is_killed = self.exit.status.signal().is_some();
        match self.written {
            _ if self.events.rows().is_empty() => String::new(),
            Some([]) if is_killed => {
                "lastuse: what each device held is unknown: the program was killed before it could \
                                      report it\n"
                    .to_owned()
            }
            None if self.arguments.off => {
                "lastuse: with --off, only the buffers of allocators are known; \"lastuse compare\" \
                                           compares memory and time\n"
                    .to_owned()
            }
            _ => String::new(),
        }
    }

    fn survivors_text(&self) -> String {
        let processes = match self.survivors.len() {
            0 => return String::new(),
            1 => "1 process of it still runs, and reports".to_owned(),
            count => format!("{count} processes of it still run, and report"),
        };
        format!("lastuse: {processes} to {}, which is not removed\n", self.launcher.folder().display())
    }

    /// Says that `--retain` has kept nothing, if so.
    fn retention_text(&self) -> String {
        let Some(names) = &self.arguments.settings.retain else { return String::new() };
        if self.events.rows().is_empty() || self.events.retained() > 0 {
            return String::new();
        }
        format!(
            "lastuse: --retain: no tensor of a planned graph has a name like {names:?}; --capture writes the names to files\n"
        )
    }

    /// Returns the mode of verification, the plans, and the graphs whose addresses were verified. These are known if the
    /// program ran to its end.
    fn verification(&self) -> Option<(&str, u64, Option<u64>)> {
        let mode = self.arguments.settings.verify.as_deref()?;
        let plans = self.events.rows().iter().filter_map(|row| row.plans).sum();
        Some((mode, plans, self.events.verified))
    }

    fn verification_text(&self) -> String {
        let Some((mode, plans, graphs)) = self.verification() else { return String::new() };
        let rows = self.events.rows();
        let unknown = match graphs {
            Some(_) => "",
            None if rows.is_empty() => "no graph was planned, so nothing was verified",
            None if plans == 0 => "ggml's own allocator planned the graphs; lastuse verifies only its plans",
            None => "the program did not run to its end; a defect that was found is told above",
        };
        let Some(graphs) = graphs else { return format!("verification: {unknown}\n") };
        let memory = if mode == "memory" { ", and what each operation wrote" } else { "" };
        format!("verification: {}, {}{memory}: no defect\n", counted(plans, "plan"), counted(graphs, "graph"))
    }

    fn verification_json(&self) -> Option<Value> {
        let (mode, plans, graphs) = self.verification()?;
        Some(json!({ "mode": mode, "plans": plans, "graphs": graphs, "defects": graphs.map(|_| 0) }))
    }
}

/// Says which budgets are not met, and that a budget for training has no effect, if so.
pub fn budget_text(events: &Events, settings: &Settings, unit: SizeUnit) -> String {
    let mut text = String::new();
    for Budget { setting, buffer, budget, after, .. } in events.missed_budgets() {
        let option = if setting == "LASTUSE_RECOMPUTE" { "--recompute" } else { "--budget" };
        let [budget, after] = [budget, after].map(|bytes| unit.text(*bytes));
        let unit = unit.name();
        let _ = writeln!(
            text,
            "lastuse: {option}: {budget} {unit} are not met on {buffer}: {after} {unit} are the least that were found; \"lastuse run \
             --explain\" names what takes them"
        );
    }
    let is_planned = events.rows().iter().any(|row| row.plans.is_some());
    if settings.recomputes() && is_planned && events.budgets.iter().all(|budget| budget.setting != "LASTUSE_RECOMPUTE")
    {
        text += "lastuse: --recompute: the program has planned no graph of a training, so nothing was computed again\n";
    }
    text
}
