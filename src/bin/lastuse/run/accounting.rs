//! What the devices held while a program ran.

use std::path::{Path, PathBuf};

use lastuse::devices::accounting::Accounting;
use lastuse::formats::read_accounting;
use lastuse::report::accounting::{AccountingFormat, accounting_summary};
use serde_json::Value;

use crate::launch::NotStarted;
use crate::output::Output;

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
    /// Opens the file that `--report` names, if any. The ending decides what is written to it: a page, unless it is that of
    /// another form.
    pub fn open(file: Option<&Path>) -> Result<Self, NotStarted> {
        let Some(file) = file else { return Ok(Self::Tables) };
        let output = Output::open(file).map_err(NotStarted::failed)?;
        let ending = file.extension().map(|ending| ending.to_string_lossy());
        match ending.and_then(|ending| AccountingFormat::with_word(&ending)) {
            None | Some(AccountingFormat::Html) => Ok(Self::Page(output)),
            Some(format) => Ok(Self::Accounting(format, output)),
        }
    }
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

    /// Reads what the processes have written, in the order of their numbers.
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

/// Formats what the processes held as tables of devices and buffers.
pub fn tables(all: &[Written]) -> String {
    if all.is_empty() {
        return "devices: no process has written what they held: the program used no ggml, or was killed\n".to_owned();
    }
    each(all, accounting_summary)
}

/// Formats what the processes held; of several processes each has its number before it.
pub fn formatted(all: &[Written], format: AccountingFormat) -> String {
    match (format, all) {
        (AccountingFormat::Json, [one]) => one.text.clone(),
        (AccountingFormat::Json, several) => format!("{}\n", Value::from_iter(values(several))),
        _ => each(all, |accounting| format.format(accounting)),
    }
}

/// Returns what the processes held as JSON.
pub fn values(all: &[Written]) -> Vec<Value> {
    all.iter().filter_map(|written| serde_json::from_str(&written.text).ok()).collect()
}

fn each(all: &[Written], format: impl Fn(&Accounting) -> String) -> String {
    let text = |written: &Written| match all.len() {
        1 => format(&written.accounting),
        _ => format!("process {}\n{}", written.accounting.process, format(&written.accounting)),
    };
    all.iter().map(text).collect()
}
