//! The events of a run, as the library reports them: one JSON object per line.

use std::collections::BTreeMap;
use std::path::Path;

use lastuse::placement::Bytes;
use serde::{Deserialize, Serialize};

use crate::report::{GraphRow, RunRow};

/// The events of a run.
#[derive(Default)]
pub struct Events {
    /// True if the program created an allocator.
    pub any: bool,
    /// The version of its ggml; all versions if there are several.
    pub ggml: Option<String>,
    /// The files written with the values of tensors.
    pub dumps: DumpTotals,
    /// The graphs whose addresses were verified; `None` if no process that verifies ran to its end.
    pub verified: Option<u64>,
    /// What was found for graphs that are to fit a budget.
    pub budgets: Vec<Budget>,
    /// Why lastuse has served no allocator of a process: each reason once, in the order of their first events.
    pub not_served: Vec<String>,
    /// The tensors that the plans of each allocator retain, by process and allocator.
    retained: BTreeMap<(u32, u64), u64>,
    /// By process and allocator: its latest plan.
    rows: BTreeMap<(u32, u64), RunRow>,
}

/// What was found for a graph that is to fit a budget, with the copies between backends.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Budget {
    /// The variable that has it.
    pub setting: String,
    /// The type of the buffers.
    pub buffer: String,
    /// Bytes that were asked for.
    pub budget: Bytes,
    /// Bytes of the plan of the program's graph.
    pub before: Bytes,
    /// Bytes of the plan that is used.
    pub after: Bytes,
}

/// The files with values of tensors that the processes of a run have written.
#[derive(Default)]
pub struct DumpTotals {
    /// Graphs computed.
    pub runs: u64,
    /// Graphs with at least one array.
    pub runs_with_files: u64,
    /// Arrays written.
    pub written: u64,
    /// Tensors that could not be written.
    pub failed: u64,
    /// If nothing matched in the first graph, similar names in it.
    pub similar: Vec<String>,
}

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event {
    Start {
        ggml: Option<String>,
    },
    Plan(Plan),
    Dump(Dump),
    Budget(Budget),
    Verified {
        graphs: u64,
    },
    #[serde(rename = "not served")]
    NotServed {
        why: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Plan {
    /// Events hold sums, so the last event of an allocator has its totals.
    #[serde(flatten)]
    row: RunRow,
    nodes: Option<u64>,
    /// The label of the graph's input; missing for ggml-alloc.
    graph: Option<String>,
    /// The tensors that all plans so far retain; missing for ggml-alloc.
    retained: Option<u64>,
}

#[derive(Deserialize)]
struct Dump {
    run: Option<u64>,
    written: u64,
    failed: u64,
    similar: Vec<String>,
}

impl Events {
    /// Reads a file. Incomplete lines are skipped: a program that was killed may leave one at the end.
    pub fn read(file: &Path) -> Self {
        let text = std::fs::read(file).unwrap_or_default();
        let mut events = Self::default();
        for line in text.split(|&byte| byte == b'\n') {
            if let Ok(event) = serde_json::from_slice(line) {
                events.add(event);
            }
        }
        events
    }

    /// Returns a row for each allocator that has planned a graph.
    pub fn rows(&self) -> Vec<&RunRow> {
        self.rows.values().collect()
    }

    /// Returns why there is no row, from the library's reports if a process has called it.
    pub fn nothing_planned(&self) -> String {
        if !self.not_served.is_empty() {
            return self.not_served.join("; ");
        }
        if self.any {
            return "the program created a ggml allocator, but planned no graph".to_owned();
        }
        "the program never used a ggml allocator: it ended before it computed anything, as with --help, or it does not use ggml, or \
         one of its libraries links ggml statically, or it \
         clears its environment; \"lastuse reach FILE\" tells which"
            .to_owned()
    }

    /// Returns how many tensors are retained by all plans.
    pub fn retained(&self) -> u64 {
        self.retained.values().sum()
    }

    /// Returns the budgets that are not met, each with the most that a graph needs.
    pub fn missed_budgets(&self) -> Vec<&Budget> {
        let mut missed: Vec<&Budget> = Vec::new();
        for budget in self.budgets.iter().filter(|budget| budget.after > budget.budget) {
            let is_same = |other: &&mut &Budget| (&other.setting, &other.buffer) == (&budget.setting, &budget.buffer);
            match missed.iter_mut().find(is_same) {
                Some(known) if known.after < budget.after => *known = budget,
                Some(_) => {}
                None => missed.push(budget),
            }
        }
        missed
    }

    fn add_version(&mut self, version: Option<String>) {
        let Some(version) = version else { return };
        match &mut self.ggml {
            None => self.ggml = Some(version),
            Some(known) if known.split(", ").any(|known| known == version) => {}
            Some(known) => *known = format!("{known}, {version}"),
        }
    }

    fn add(&mut self, event: Event) {
        self.any = true;
        match event {
            Event::Start { ggml } => self.add_version(ggml),
            Event::Plan(Plan { mut row, nodes, graph, retained }) => {
                let graph = graph.zip(nodes).map(|(label, nodes)| GraphRow { label, nodes });
                let key = (row.pid, row.allocator);
                self.retained.insert(key, retained.unwrap_or_default());
                row.graphs = self.rows.remove(&key).map(|row| row.graphs).unwrap_or_default();
                row.graphs.extend(graph.filter(|graph| !row.graphs.contains(graph)));
                self.rows.insert(key, row);
            }
            Event::Dump(dump) => self.dumps.add(dump),
            Event::Budget(budget) => self.budgets.push(budget),
            Event::NotServed { why } if self.not_served.contains(&why) => {}
            Event::NotServed { why } => self.not_served.push(why),
            Event::Verified { graphs } => *self.verified.get_or_insert(0) += graphs,
            Event::Other => {}
        }
    }
}

impl DumpTotals {
    fn add(&mut self, dump: Dump) {
        let Dump { run, written, failed, similar } = dump;
        self.runs += 1;
        self.runs_with_files += u64::from(run.is_some());
        self.written += written;
        self.failed += failed;
        self.similar.extend(similar);
    }
}
