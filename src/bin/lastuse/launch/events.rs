//! What the library reported of a run: a JSON object a line.

use std::collections::BTreeMap;
use std::path::Path;

use lastuse::report::{BufferRow, RunRow};
use serde::Deserialize;

/// Everything that a run reported.
#[derive(Default)]
pub struct Events {
    /// Some program asked for an allocator.
    pub any: bool,
    /// The version of the ggml it has; all of them where there are several.
    pub ggml: Option<String>,
    /// By process and allocator, in that order.
    rows: BTreeMap<(u32, u64), RunRow>,
}

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event {
    Start {
        ggml: Option<String>,
    },
    Plan(Plan),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Plan {
    pid: u32,
    allocator: u64,
    plans: Option<u64>,
    plan_us: Option<f64>,
    buffers: Vec<Buffer>,
}

#[derive(Deserialize)]
struct Buffer {
    id: usize,
    name: String,
    bytes: u64,
    lower_bound: Option<u64>,
    ggml_alloc_bytes: Option<u64>,
}

impl Events {
    /// Reads what there is. A program that died in the middle may have left half a line at the end.
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

    /// An allocator a row, those that planned nothing left out.
    pub fn rows(&self) -> Vec<&RunRow> {
        self.rows.values().collect()
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
            Event::Plan(plan) => {
                self.rows.insert((plan.pid, plan.allocator), row(plan));
            }
            Event::Other => {}
        }
    }
}

/// Each line holds the sums so far, so the last one is the whole.
fn row(plan: Plan) -> RunRow {
    let Plan { pid, allocator, plans, plan_us, buffers } = plan;
    let buffers = buffers.into_iter().map(|Buffer { id, name, bytes, lower_bound, ggml_alloc_bytes }| BufferRow {
        id,
        name,
        bytes,
        lower_bound,
        ggml_alloc: ggml_alloc_bytes,
    });
    RunRow { pid, allocator, plans, plan_us, buffers: buffers.collect() }
}
