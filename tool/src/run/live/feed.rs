//! What a program that runs holds and has planned, as far as its processes have told by now.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use lastuse::accounting::{AccountedDevice, Accounting, SumsAt};
use serde_json::json;

use crate::draw::{Planned, live_lines, live_page, planned};
use crate::formats::read_accounting;
use crate::report::accounting::{live_html, resident};
use crate::run::files::Captures;

use super::http::Answer;

/// The time between two samples.
pub const INTERVAL: Duration = Duration::from_millis(500);

/// What is told of a program that runs.
pub struct Feed {
    program: String,
    began: Instant,
    /// The files that its processes write again and again.
    folder: PathBuf,
    captures: Captures,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// What the processes that run hold; what they held last, once none runs.
    accountings: Vec<Accounting>,
    /// By process and device: what it held over time.
    samples: BTreeMap<(u32, String), Vec<SumsAt>>,
    /// The graphs, in the order in which each was first planned.
    graphs: Vec<Planned>,
    /// The files that were read, of these graphs and of those that cannot be drawn.
    files: Vec<PathBuf>,
}

impl Feed {
    /// Creates the folder for the files, inside `folder`.
    pub fn new(program: String, folder: &Path, captures: Captures) -> Result<Self, String> {
        let folder = folder.join("live");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: cannot be written: {error}", folder.display()))?;
        Ok(Self { program, began: Instant::now(), folder, captures, seen: Mutex::default() })
    }

    /// Returns the value of LASTUSE_LIVE.
    pub fn file(&self) -> PathBuf {
        self.folder.join("%p.json")
    }

    /// Answers the request for a path.
    pub fn answer(&self, path: &str) -> Answer {
        match path {
            "/" => Answer::html(live_page(self.with_graphs().graphs(), &self.program)),
            "/graphs.json" => Answer::json(live_lines(self.with_graphs().graphs())),
            "/live.json" => self.state(),
            // Browsers ask for it unasked.
            "/favicon.ico" => Answer { status: "204 No Content", kind: "image/x-icon", body: String::new() },
            _ => Answer::error("404 Not Found", "there is only the page /"),
        }
    }

    /// Reads what the processes hold now.
    pub fn sample(&self) {
        let mut accountings = self.read();
        if accountings.is_empty() {
            return;
        }
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut seen = self.seen();
        for accounting in &mut accountings {
            let of_device = |device: &AccountedDevice| {
                let resident = resident(accounting, device).map(|sums| sums.total());
                SumsAt { ms, sums: device.sums, resident }
            };
            let now: Vec<SumsAt> = accounting.devices.iter().map(of_device).collect();
            for (device, now) in accounting.devices.iter_mut().zip(now) {
                let samples = seen.samples.entry((accounting.process, device.name.clone())).or_default();
                now.add_to(samples);
                device.samples.clone_from(samples);
            }
        }
        seen.accountings = accountings;
    }

    /// Reads the files of the processes that still run, in the order of their numbers.
    fn read(&self) -> Vec<Accounting> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let files = entries.filter(|file| file.extension().is_some_and(|ending| ending == "json"));
        let read = |file: PathBuf| read_accounting(&fs::read_to_string(file).ok()?).ok();
        let runs = |accounting: &Accounting| Path::new(&format!("/proc/{}", accounting.process)).exists();
        let mut all: Vec<Accounting> = files.filter_map(read).filter(runs).collect();
        all.sort_by_key(|accounting| accounting.process);
        all
    }

    /// Describes the moment: how many graphs there are, the one that was planned last, and the memory of the devices.
    fn state(&self) -> Answer {
        let seen = self.with_graphs();
        let accountings: Vec<&Accounting> = seen.0.accountings.iter().collect();
        let state = format!("{} has run for {:.0} s", self.program, self.began.elapsed().as_secs_f64());
        Answer::json(
            json!({
                "state": state,
                "graphs": seen.graphs().len(),
                "newest": seen.graphs().last().map(Planned::label),
                "devices": accountings.iter().map(|accounting| live_html(accounting)).collect::<String>(),
            })
            .to_string(),
        )
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the graphs that are new, and returns all.
    fn with_graphs(&self) -> WithGraphs<'_> {
        let mut seen = self.seen();
        let modified =
            |file: &PathBuf| fs::metadata(file).and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        let mut new = self.captures.files().unwrap_or_default();
        new.retain(|file| !seen.files.contains(file));
        new.sort_by_cached_key(modified);
        for file in new {
            let number = seen.graphs.len() + 1;
            seen.graphs.extend(planned(&self.program, number, &file));
            seen.files.push(file);
        }
        WithGraphs(seen)
    }
}

/// What is seen, with all graphs that there are.
struct WithGraphs<'a>(MutexGuard<'a, Seen>);

impl WithGraphs<'_> {
    fn graphs(&self) -> &[Planned] {
        &self.0.graphs
    }
}
