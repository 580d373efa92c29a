//! Two files or folders: which kind they are of, and what they say was held.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use lastuse::accounting::{Accounting, Sums};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Arguments, accountings, captures};
use crate::foreign::{FIRST_BYTES, Foreign, unreadable};
use crate::formats::{decompressed, is_gzip, read_accounting};
use crate::input::graphs_in;
use crate::launch::is_program;
use crate::measure::MEASUREMENT;
use crate::output::{print, print_notice, print_tables};
use crate::report::{Compared, Comparison, Holder, SizeUnit, comparison_text};
use crate::usage::Failure;

/// The endings of files that can be compared.
const ENDINGS: [&str; 3] = [".json", ".jsonl", ".jsonl.gz"];

/// What can be compared, for messages.
const EXPECTED: &str = "compared are two accountings (\"lastuse run --accounting=FILE.json\"), \
                        two reports (--json -o FILE.json), also of \"lastuse measure\", or two captures (--capture DIR)";

/// Returns whether the words of a command line are files to compare, not a program and its arguments: the first is a folder, or it is
/// not a program, and it, or the other of two, has what can be compared.
pub fn are_meant(words: &[OsString]) -> bool {
    let others = match words {
        [_, other] => std::slice::from_ref(other),
        _ => &[],
    };
    let is_meant = |first: &OsString| {
        Path::new(first).is_dir() || (!is_program(first) && (is_data(first) || others.iter().any(is_data)))
    };
    words.first().is_some_and(is_meant)
}

/// Returns whether a word names a file or folder that seems to have what can be compared, or ends as such names do.
fn is_data(word: &OsString) -> bool {
    let file = Path::new(word);
    if file.is_dir() {
        return graphs_in(file).is_ok_and(|graphs| !graphs.is_empty()) || !json_files(file).is_empty();
    }
    if file.exists() && !file.is_file() {
        // A pipe is no program, and what is read of it is gone.
        return true;
    }
    let mut start = Vec::new();
    // A file that cannot be read is told by its name.
    let _ = File::open(file).and_then(|file| file.take(FIRST_BYTES as u64).read_to_end(&mut start));
    let begins_as_data = matches!(start.trim_ascii_start().first(), Some(b'{' | b'[')) || is_gzip(&start);
    begins_as_data || ENDINGS.iter().any(|ending| word.to_string_lossy().ends_with(ending))
}

/// Returns the files of a folder that are named *.json, sorted by name.
fn json_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let is_json = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "json") && file.is_file();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_json).collect();
    files.sort();
    files
}

/// Prints what grew or shrank between two files or folders.
pub fn compare(arguments: &Arguments) -> Result<(), Failure> {
    let words = arguments.target.words();
    let [old, new] = words else {
        let is_option = |word: &&OsString| word.to_string_lossy().starts_with('-');
        return Err(Failure::usage(match words.iter().find(is_option) {
            Some(option) => format!("{}: options come before the files", option.display()),
            None => format!("{} file{} given: {EXPECTED}", words.len(), if words.len() == 1 { "" } else { "s" }),
        }));
    };
    let ([old, new], top) = ([Path::new(old), Path::new(new)], arguments.top()?);
    let [from, to] = [Data::read(old)?, Data::read(new)?];
    let compared = match (&from, &to) {
        (Data::Captures(_), Data::Captures(_)) => Compared::Buffers,
        (Data::Devices(_), Data::Devices(_)) => Compared::Devices,
        _ => {
            let [one, other] =
                [(old, &from), (new, &to)].map(|(file, data)| format!("{} is {}", file.display(), data.name()));
            return Err(Failure::usage(format!("{one}, and {other}: {EXPECTED}")));
        }
    };
    let [from, to] = [from.holders()?, to.holders()?];
    let name = |file: &Path| file.display().to_string();
    let comparison = Comparison::new(compared, (name(old), &from), (name(new), &to));
    if arguments.json {
        let json = comparison.json().map_err(|error| error.to_string())?;
        return Ok(print(format!("{json}\n").as_bytes())?);
    }
    let unit = if arguments.bytes { SizeUnit::Bytes } else { SizeUnit::Mib };
    Ok(print_tables(&comparison_text(&comparison, unit, top))?)
}

/// What a file or folder has.
enum Data {
    /// The files of graphs.
    Captures(Vec<PathBuf>),
    /// What devices held, of an accounting or a report.
    Devices(Vec<Holder>),
}

impl Data {
    /// Reads a file or folder; captured graphs are read later.
    fn read(file: &Path) -> Result<Self, String> {
        let named = |why: String| format!("{}: {why}", file.display());
        if !file.is_dir() {
            return Self::of_file(file).map_err(named);
        }
        let graphs = graphs_in(file).map_err(|error| named(unreadable(file, &error)))?;
        if !graphs.is_empty() {
            return Ok(Self::Captures(graphs));
        }
        let mut processes = Vec::new();
        for file in json_files(file) {
            let named = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
            let text = std::fs::read_to_string(&file).map_err(|error| named(&unreadable(&file, &error)))?;
            processes.push(read_accounting(&text).map_err(|error| named(&error))?);
        }
        match processes.as_slice() {
            [] => Err(named(format!(
                "the folder has neither captured graphs (*.jsonl, *.jsonl.gz) nor accountings (*.json): {EXPECTED}"
            ))),
            all => Ok(Self::Devices(accountings::holders(all))),
        }
    }

    fn of_file(file: &Path) -> Result<Self, String> {
        let failed = |error| unreadable(file, &error);
        let (mut open, mut start) = (File::open(file).map_err(failed)?, Vec::new());
        open.by_ref().take(FIRST_BYTES as u64).read_to_end(&mut start).map_err(failed)?;
        if let Some(foreign) = Foreign::of(&start) {
            return Err(format!("this is {}: {EXPECTED}", foreign.name));
        }
        if ENDINGS[1..].iter().any(|ending| file.to_string_lossy().ends_with(ending)) {
            return Ok(Self::Captures(vec![file.to_owned()]));
        }
        let mut bytes = Vec::new();
        let mut input = decompressed(BufReader::new(Cursor::new(start).chain(open))).map_err(failed)?;
        input.read_to_end(&mut bytes).map_err(failed)?;
        let first_line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if serde_json::from_slice::<Value>(first_line).is_ok_and(|line| line["format"] == "lastuse-graph") {
            return Ok(Self::Captures(vec![file.to_owned()]));
        }
        let is_json = matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['));
        let text = String::from_utf8(bytes).ok().filter(|_| is_json);
        let text = text.ok_or_else(|| format!("neither JSON of lastuse nor a captured graph: {EXPECTED}"))?;
        let json: Value = serde_json::from_str(&text).map_err(|error| format!("not whole JSON: {error}"))?;
        let holders = match &json {
            Value::Array(processes) if processes.is_empty() => {
                return Err("the list is empty: no process has written what devices held".to_owned());
            }
            Value::Array(processes) => accountings::holders(&accountings_of(processes)?),
            Value::Object(keys) if keys.get("format").is_some_and(|format| *format == MEASUREMENT.0) => {
                devices_of_measurement(&json, file)?
            }
            Value::Object(keys) if keys.contains_key("format") => {
                accountings::holders(&[read_accounting(&text).map_err(|error| error.to_string())?])
            }
            Value::Object(keys) if keys.contains_key("devices") => devices_of_report(&json)?,
            _ => return Err(format!("neither an accounting nor a report of lastuse: {EXPECTED}")),
        };
        Ok(Self::Devices(holders))
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Captures(files) if files.len() > 1 => "a folder of captures",
            Self::Captures(_) => "a capture",
            Self::Devices(_) => "an accounting or a report",
        }
    }

    fn holders(self) -> Result<Vec<Holder>, String> {
        match self {
            Self::Captures(files) => captures::holders(&files),
            Self::Devices(holders) => Ok(holders),
        }
    }
}

/// Reads the accountings of several processes.
fn accountings_of(processes: &[Value]) -> Result<Vec<Accounting>, String> {
    processes.iter().map(|process| read_accounting(&process.to_string()).map_err(|error| error.to_string())).collect()
}

/// Returns what the devices of a measurement would hold, in all of its processes.
fn devices_of_measurement(json: &Value, file: &Path) -> Result<Vec<Holder>, String> {
    if json["version"] != MEASUREMENT.1 {
        let (version, known) = (&json["version"], MEASUREMENT.1);
        return Err(format!("not a measurement of lastuse: version {version}; expected version {known}"));
    }
    let processes = || json["processes"].as_array().into_iter().flatten();
    for process in processes().filter(|process| process["complete"] == false) {
        let why = process["end"].as_str().unwrap_or_default();
        print_notice(&format!("{} was not measured to its end: {why}", file.display()));
    }
    let devices = processes().flat_map(|process| process["devices"].as_array().into_iter().flatten());
    let devices: Vec<&Value> = devices.collect();
    devices_of_report(&json!({ "devices": devices, "accounting": json["accounting"] }))
}

/// A device in a report, of one process.
#[derive(Deserialize)]
struct DeviceOfReport {
    name: String,
    #[serde(flatten)]
    sums: Sums,
}

/// Returns what the devices of a report held; their tensors are known if it has the accountings too.
fn devices_of_report(report: &Value) -> Result<Vec<Holder>, String> {
    if let Some(processes) = report["accounting"].as_array().filter(|processes| !processes.is_empty()) {
        return Ok(accountings::holders(&accountings_of(processes)?));
    }
    let why = |error| format!("not a report of lastuse: devices: {error}");
    let devices: Option<Vec<DeviceOfReport>> = serde_json::from_value(report["devices"].clone()).map_err(why)?;
    let devices = devices.filter(|devices| !devices.is_empty());
    let devices = devices.ok_or(
        "the report does not say what devices held: with --off, and for a program that is killed, it is not known",
    )?;
    let mut all = Vec::new();
    devices.iter().for_each(|device| accountings::add(&mut all, &device.name, &device.sums, None));
    Ok(all)
}
