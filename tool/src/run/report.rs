//! The report of a program that has ended.

use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;

use lastuse::report::explain::{DEFAULT_TOP, Explanation, explanation_text};
use serde_json::{Value, json};

use crate::launch::{Events, Exit, Launcher};
use crate::report::{arena_line, explanation_json, graph_lines, run_table};
use crate::run::accounting::Written;
use crate::run::{Arguments, Requests, accounting};

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
            "still_running": survivors,
            "dump": requests.dumps.as_ref().map(|dumps| dumps.json(&events.dumps)),
            "devices": written.map(|written| accounting::sums(written, &events.rows())),
            "explanation": explanation.and_then(|text| serde_json::from_str::<Value>(&text).ok()),
            "accounting": written.filter(|_| arguments.accounting.is_some()).map(accounting::values),
        });
        format!("{json}\n")
    }

    /// Formats the report as tables and lines.
    pub fn text(&self) -> String {
        let Self { arguments, events, requests, written, .. } = self;
        let mut text = self.head();
        let rows = events.rows();
        if !rows.is_empty() {
            text += &run_table(&rows);
            text += &graph_lines(&rows);
            text += &arena_line(&rows);
        }
        text += &self.survivors_text();
        text += &self.verification_text();
        let devices = written.map(|written| accounting::devices(written, &rows)).filter(|devices| !devices.is_empty());
        let tables = written.filter(|_| arguments.accounting.is_some()).map(accounting::tables);
        let explanation = self.explanation.as_ref().map(|explanation| explanation_text(explanation, DEFAULT_TOP));
        for part in [devices, tables, explanation].into_iter().flatten() {
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

    fn head(&self) -> String {
        let Self { launcher, exit, events, .. } = self;
        let end = match (exit.status.code(), exit.status.signal()) {
            (Some(0), _) => "exited normally".to_owned(),
            (Some(code), _) => format!("exited with code {code}"),
            (None, signal) => format!("was killed by signal {}", signal.unwrap_or_default()),
        };
        let head = format!("lastuse: {} {end} after {:.2} s", launcher.name(), exit.time.as_secs_f64());
        if events.rows().is_empty() {
            return format!("{head}; {}\n", events.nothing_planned());
        }
        let version = events.ggml.as_ref().map_or_else(String::new, |version| format!("; ggml {version}"));
        let peak = exit.peak_bytes;
        let not_served: String = events.not_served.iter().map(|why| format!("lastuse: {why}\n")).collect();
        #[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
        let mib = peak as f64 / 1_048_576.0;
        format!("{head}{version}; peak resident memory {mib:.2} MiB ({peak} bytes)\n{not_served}")
    }

    fn survivors_text(&self) -> String {
        let processes = match self.survivors.len() {
            0 => return String::new(),
            1 => "1 process of it still runs, and reports".to_owned(),
            count => format!("{count} processes of it still run, and report"),
        };
        format!("lastuse: {processes} to {}, which is not removed\n", self.launcher.folder().display())
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
        let counted = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let memory = if mode == "memory" { ", and what each operation wrote" } else { "" };
        format!("verification: {}, {}{memory}: no defect\n", counted(plans, "plan"), counted(graphs, "graph"))
    }

    fn verification_json(&self) -> Option<Value> {
        let (mode, plans, graphs) = self.verification()?;
        Some(json!({ "mode": mode, "plans": plans, "graphs": graphs, "defects": graphs.map(|_| 0) }))
    }
}
