//! The memory of the devices while a program ran.

use std::path::{Path, PathBuf};

use lastuse::formats::read_accounting;
use lastuse::offload::accounting::{AccountedDevice, Accounting, Sums};
use lastuse::report::accounting::{AccountingFormat, accounting_summary, devices_in_mib};
use serde_json::{Value, json};

use crate::launch::NotStarted;
use crate::output::{Output, by_ending};

/// The files that the processes of a program write at their ends.
pub struct Accountings {
    folder: PathBuf,
}

/// What `--report` writes.
pub enum Report {
    /// Nothing but the tables.
    Tables,
    /// A page with pictures of the graphs.
    Page(Output),
    /// The accounting alone.
    Accounting(AccountingFormat, Output),
}

impl Report {
    /// Opens the file that `--report` names, if any. The ending selects the format.
    pub fn open(file: Option<&Path>) -> Result<Self, NotStarted> {
        let Some(file) = file else { return Ok(Self::Tables) };
        let format = by_ending(file, &ENDINGS).map_err(|why| NotStarted::failed(format!("--report: {why}")))?;
        let output = Output::open(file).map_err(NotStarted::failed)?;
        match format {
            AccountingFormat::Html => Ok(Self::Page(output)),
            format => Ok(Self::Accounting(format, output)),
        }
    }
}

/// The endings of files that `--report` writes.
const ENDINGS: [(&str, AccountingFormat); 5] = [
    (".html", AccountingFormat::Html),
    (".htm", AccountingFormat::Html),
    (".json", AccountingFormat::Json),
    (".txt", AccountingFormat::Text),
    (".log", AccountingFormat::Lines),
];

/// Returns whether `--report` writes files with such a name.
pub fn names_report(file: &Path) -> bool {
    by_ending(file, &ENDINGS).is_ok()
}

impl Accountings {
    /// Creates the folder for the files, inside `folder`.
    pub fn new(folder: &Path) -> Result<Self, NotStarted> {
        let folder = folder.join("accounting");
        let failed = |error| NotStarted::failed(format!("{}: cannot be written: {error}", folder.display()));
        std::fs::create_dir_all(&folder).map_err(failed)?;
        Ok(Self { folder })
    }

    /// Returns the value of LASTUSE_ACCOUNTING.
    pub fn file(&self) -> PathBuf {
        self.folder.join("%p.json")
    }

    /// Reads the files that the processes have written, in the order of their ids.
    pub fn read(&self) -> Result<Vec<Written>, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", self.folder.display());
        let entries: Result<Vec<_>, _> = std::fs::read_dir(&self.folder).map_err(|error| failed(&error))?.collect();
        let files = entries.map_err(|error| failed(&error))?.into_iter().map(|entry| entry.path());
        let mut all = Vec::new();
        for file in files.filter(|file| file.extension().is_some_and(|ending| ending == "json")) {
            let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let accounting = read_accounting(&text).map_err(|error| format!("{}: {error}", file.display()))?;
            all.push(Written { accounting, text });
        }
        all.sort_by_key(|written| written.accounting.process);
        Ok(all)
    }
}

/// The accounting of a process, and its file.
pub struct Written {
    pub accounting: Accounting,
    text: String,
}

/// Formats the memory of the devices of the processes, in MiB; empty where nothing was recorded.
pub fn devices(all: &[Written]) -> String {
    each(all, devices_in_mib)
}

/// Returns the memory of the devices of the processes, in bytes.
pub fn sums(all: &[Written]) -> Vec<Value> {
    let of_device = |process: u32, device: &AccountedDevice| {
        let Sums { weights, kv, compute, other, rounding } = device.sums;
        json!({ "process": process, "name": device.name, "weights": weights, "kv": kv, "compute": compute,
            "other": other, "rounding": rounding, "total": device.sums.total() })
    };
    let of_process = |written: &Written| {
        let Accounting { process, devices, .. } = &written.accounting;
        devices.iter().map(|device| of_device(*process, device)).collect::<Vec<_>>()
    };
    all.iter().flat_map(of_process).collect()
}

/// Formats the memory of the processes as tables of devices and buffers.
pub fn tables(all: &[Written]) -> String {
    if all.is_empty() {
        return "devices: no process has written what they held: the program used no ggml, or was killed\n".to_owned();
    }
    each(all, accounting_summary)
}

/// Formats the memory of the processes; with several processes each is preceded by its id.
pub fn formatted(all: &[Written], format: AccountingFormat) -> String {
    match (format, all) {
        (AccountingFormat::Json, [one]) => one.text.clone(),
        (AccountingFormat::Json, several) => format!("{}\n", Value::from_iter(values(several))),
        _ => each(all, |accounting| format.format(accounting)),
    }
}

/// Returns the memory of the processes as JSON.
pub fn values(all: &[Written]) -> Vec<Value> {
    all.iter().filter_map(|written| serde_json::from_str(&written.text).ok()).collect()
}

fn each(all: &[Written], format: impl Fn(&Accounting) -> String) -> String {
    let text = |written: &Written| match all.len() {
        1 => format(&written.accounting),
        _ => match format(&written.accounting) {
            empty if empty.is_empty() => empty,
            text => format!("process {}\n{text}", written.accounting.process),
        },
    };
    all.iter().map(text).collect()
}
