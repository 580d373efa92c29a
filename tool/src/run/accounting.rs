//! The memory of the devices while a program ran.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use lastuse::accounting::{AccountedDevice, Accounting, Sums};
use serde_json::{Value, json};

use crate::foreign::unreadable;
use crate::formats::read_accounting;
use crate::launch::NotStarted;
use crate::output::{Output, by_ending, titled};
use crate::report::accounting::{accounting_summary, accounting_text, devices_in, resident, with_ggml_alloc};
use crate::report::{RunRow, SizeUnit};

/// The files that the processes of a program write at their ends.
pub struct Accountings {
    folder: PathBuf,
}

/// What a file of `--accounting` has.
#[derive(Clone, Copy)]
pub enum Form {
    /// Pictures of the graphs, and the tables.
    Page,
    /// The files that the processes have written.
    Json,
    /// The tables.
    Text,
}

/// The endings of files that `--accounting` writes.
const ENDINGS: [(&str, Form); 4] =
    [(".html", Form::Page), (".htm", Form::Page), (".json", Form::Json), (".txt", Form::Text)];

/// Opens the file that `--accounting` names, if any. The ending selects the form.
pub fn open(file: Option<&Path>) -> Result<Option<(Form, Output)>, NotStarted> {
    let Some(file) = file else { return Ok(None) };
    let form = by_ending(file, &ENDINGS).map_err(|why| NotStarted::failed(format!("--accounting: {why}")))?;
    Ok(Some((form, Output::open(file).map_err(NotStarted::failed)?)))
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
        let is_whole = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "json");
        let mut all = files.filter(is_whole).map(|file| Written::read(&file)).collect::<Result<Vec<_>, _>>()?;
        all.sort_by_key(|written| written.accounting.process);
        Ok(all)
    }
}

/// The accounting of a process, and its file.
pub struct Written {
    pub accounting: Accounting,
    text: String,
}

impl Written {
    /// Reads a file.
    pub fn read(file: &Path) -> Result<Self, String> {
        let text =
            std::fs::read_to_string(file).map_err(|error| format!("{}: {}", file.display(), not_read(file, &error)))?;
        let accounting = read_accounting(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Self { accounting, text })
    }

    /// Returns it as JSON.
    pub fn value(&self) -> Option<Value> {
        serde_json::from_str(&self.text).ok()
    }
}

fn not_read(file: &Path, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::InvalidData => "not an accounting of lastuse: LASTUSE_ACCOUNTING=FILE writes one".to_owned(),
        _ => unreadable(file, error),
    }
}

/// Formats the memory of the devices of the processes, also with ggml-alloc, in tables with bold titles; empty where nothing was
/// recorded.
pub fn devices(all: &[Written], rows: &[&RunRow], unit: SizeUnit) -> String {
    each(all, |accounting| titled(&devices_in(unit, accounting, rows)))
}

/// Returns the memory of the devices of the processes, in bytes, and with ggml-alloc.
pub fn sums(all: &[Written], rows: &[&RunRow]) -> Vec<Value> {
    let of_device = |accounting: &Accounting, device: &AccountedDevice| {
        let Sums { weights, kv, compute, other, rounding } = device.sums;
        let resident = resident(accounting, device).map(|it| {
            json!({ "weights": it.weights, "kv": it.kv, "compute": it.compute, "other": it.other, "total": it.total() })
        });
        let without = with_ggml_alloc(accounting, device, rows);
        let without = without.map(|it| json!({ "compute": it.compute, "total": it.total() }));
        json!({ "process": accounting.process, "name": device.name, "weights": weights, "kv": kv, "compute": compute,
            "other": other, "rounding": rounding, "total": device.sums.total(), "resident": resident,
            "ggml_alloc": without })
    };
    let of_process = |written: &Written| {
        let accounting = &written.accounting;
        accounting.devices.iter().map(|device| of_device(accounting, device)).collect::<Vec<_>>()
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

/// Formats the memory of the processes as tables of devices, buffers and tensors.
pub fn tables_with_tensors(all: &[Written]) -> String {
    each(all, accounting_text)
}

/// Returns the file of the only process, or else a list of all.
pub fn json_text(all: &[Written]) -> String {
    match all {
        [one] => one.text.clone(),
        several => format!("{}\n", Value::from_iter(values(several))),
    }
}

/// Returns the memory of the processes as JSON.
pub fn values(all: &[Written]) -> Vec<Value> {
    all.iter().filter_map(Written::value).collect()
}

/// Formats each accounting; with several processes each is preceded by its id.
fn each(all: &[Written], format: impl Fn(&Accounting) -> String) -> String {
    let text = |written: &Written| match (all.len(), format(&written.accounting)) {
        (2.., text) if !text.is_empty() => format!("process {}\n{text}", written.accounting.process),
        (_, text) => text,
    };
    all.iter().map(text).collect()
}
