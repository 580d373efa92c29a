//! Reads the file of a plan.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Map, Value};

use crate::foreign::unreadable;
use crate::formats::input::{Malformed, decompressed};

use super::{FORMAT, PlanFile, PlannedBuffer, PlannedTensor};

type Result<T> = std::result::Result<T, Malformed>;

fn malformed<T>(reason: impl Into<String>) -> Result<T> {
    Err(Malformed::new(reason))
}

impl PlanFile {
    /// Reads the plan of a file, compressed by gzip or not.
    ///
    /// # Errors
    /// [`Malformed`] when the file cannot be read, or with its first defect, and its line or tensor.
    pub fn open(path: &Path) -> Result<Self> {
        match File::open(path) {
            Ok(file) => Self::read(BufReader::new(file)),
            Err(error) => malformed(unreadable(path, &error)),
        }
    }

    /// Reads a plan from any input, compressed by gzip or not.
    ///
    /// # Errors
    /// [`Malformed`] with the first defect, and its line or tensor.
    pub fn read(input: impl BufRead) -> Result<Self> {
        let input = decompressed(input).map_err(|error| Malformed::new(format!("cannot be read: {error}")))?;
        let mut documents = serde_json::Deserializer::from_reader(input).into_iter::<Value>();
        let document = match documents.next() {
            None => return malformed("line 1: the file is empty"),
            Some(Err(error)) if error.is_syntax() && error.line() == 1 && error.column() <= 2 => {
                return malformed(NO_PLAN);
            }
            Some(Err(error)) => return malformed(line_first(&error)),
            Some(Ok(Value::Object(document))) => document,
            Some(Ok(_)) => return malformed(NO_PLAN),
        };
        check_format(&document)?;
        match documents.next() {
            None => {}
            Some(Ok(_)) => {
                return malformed("there is more behind the first plan: a file with a single plan is expected");
            }
            Some(Err(error)) => return malformed(format!("behind the plan: {}", line_first(&error))),
        }
        Self::of_document(&document)
    }

    fn of_document(document: &Map<String, Value>) -> Result<Self> {
        let buffers = list("the plan", document, "buffers")?;
        let tensors = list("the plan", document, "tensors")?;
        let order = match document.get("order") {
            None | Some(Value::Null) => None,
            Some(_) => Some(numbers("the plan", document, "order")?),
        };
        Ok(Self {
            buffers: objects("buffer", buffers, PlannedBuffer::of)?,
            order,
            tensors: objects("tensor", tensors, PlannedTensor::of)?,
        })
    }
}

impl PlannedBuffer {
    fn of(what: &str, entry: &Map<String, Value>) -> Result<Self> {
        let Some(Value::String(name)) = entry.get("name") else {
            return malformed(format!("{what}: a name is expected"));
        };
        Ok(Self {
            name: name.clone(),
            size: number(what, entry, "size")?,
            chunks: numbers(what, entry, "chunks")?,
            lower_bound: number(what, entry, "lower_bound")?,
        })
    }
}

impl PlannedTensor {
    fn of(what: &str, entry: &Map<String, Value>) -> Result<Self> {
        let id = number(what, entry, "id")?;
        let what = &format!("tensor {id}");
        Ok(Self {
            id,
            buffer: index(what, entry, "buffer")?,
            chunk: index(what, entry, "chunk")?,
            offset: number(what, entry, "offset")?,
            size: number(what, entry, "size")?,
        })
    }
}

/// What a file of another kind is told.
const NO_PLAN: &str = "line 1: this is not a lastuse plan file: \"lastuse plan --json GRAPH\" prints a plan";

/// Formats an error of JSON like other defects: the line first.
fn line_first(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let reason = message.split(" at line ").next().unwrap_or_default();
    let hint = if error.is_eof() { ": is the file whole?" } else { "" };
    format!("line {}: {reason} (column {}){hint}", error.line(), error.column())
}

fn check_format(document: &Map<String, Value>) -> Result<()> {
    let (name, version) = FORMAT;
    match document.get("format") {
        Some(Value::String(format)) if format == name => {}
        Some(format) => return malformed(format!("line 1: the format is {format}, and {name:?} is expected")),
        None => return malformed(NO_PLAN),
    }
    match document.get("version") {
        Some(found) if found.as_u64() == Some(version) => Ok(()),
        Some(found) => malformed(format!("line 1: version {found} is unknown; known is {version}")),
        None => malformed(format!("line 1: there is no version; known is {version}")),
    }
}

fn list<'v>(what: &str, entry: &'v Map<String, Value>, key: &str) -> Result<&'v [Value]> {
    match entry.get(key) {
        Some(Value::Array(list)) => Ok(list),
        Some(_) => malformed(format!("{what}: {key} must be a list")),
        None => malformed(format!("{what}: {key} is missing")),
    }
}

/// Reads a list of objects; messages name them by their positions, counted from 0.
fn objects<T>(what: &str, list: &[Value], read: impl Fn(&str, &Map<String, Value>) -> Result<T>) -> Result<Vec<T>> {
    let read_one = |(position, value): (usize, &Value)| match value {
        Value::Object(entry) => read(&format!("{what} at position {position}"), entry),
        _ => malformed(format!("{what} at position {position}: a JSON object is expected")),
    };
    list.iter().enumerate().map(read_one).collect()
}

fn numbers(what: &str, entry: &Map<String, Value>, key: &str) -> Result<Vec<u64>> {
    list(what, entry, key)?.iter().map(|value| whole(what, key, value)).collect()
}

fn number(what: &str, entry: &Map<String, Value>, key: &str) -> Result<u64> {
    match entry.get(key) {
        Some(value) => whole(what, key, value),
        None => malformed(format!("{what}: {key} is missing")),
    }
}

fn index(what: &str, entry: &Map<String, Value>, key: &str) -> Result<u32> {
    let found = number(what, entry, key)?;
    u32::try_from(found).or_else(|_| malformed(format!("{what}: {key} is {found}, more than there can be")))
}

fn whole(what: &str, key: &str, value: &Value) -> Result<u64> {
    let expected = || Malformed::new(format!("{what}: {key} is {value}, and a whole number below 2^64 is expected"));
    value.as_u64().ok_or_else(expected)
}
