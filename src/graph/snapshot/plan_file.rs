//! Plans in files: reads the format "lastuse-plan", version 1. The file may be compressed by gzip.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Map, Value};

use crate::graph::{BufferIndex, TensorId};
use crate::placement::{Bytes, ChunkId, Offset};

use super::Snapshot;
use super::file::decompressed;

/// The name of the format, and the only version of it so far.
const FORMAT: (&str, u64) = ("lastuse-plan", 1);

/// A plan from a file: what it claims, not more.
#[derive(Clone, Debug)]
pub struct PlanFile {
    /// The buffers.
    pub buffers: Vec<PlannedBuffer>,
    /// The nodes in the order to run them in, by id, where that is not the order of the graph.
    pub order: Option<Vec<u64>>,
    /// Every tensor that gets memory.
    pub tensors: Vec<PlannedTensor>,
}

/// A buffer of a plan.
#[derive(Clone, Debug)]
pub struct PlannedBuffer {
    /// The name of its type.
    pub name: String,
    /// Bytes of all chunks.
    pub size: Bytes,
    /// Bytes of each chunk.
    pub chunks: Vec<Bytes>,
    /// No plan is said to be smaller.
    pub lower_bound: Bytes,
}

/// A tensor of a plan.
#[derive(Clone, Copy, Debug)]
pub struct PlannedTensor {
    /// Its id in the file of the graph.
    pub id: u64,
    /// Its buffer.
    pub buffer: BufferIndex,
    /// Which chunk of that.
    pub chunk: ChunkId,
    /// Bytes from the start of the chunk.
    pub offset: Offset,
    /// Bytes, padded to the alignment.
    pub size: Bytes,
}

/// What is wrong with the file of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedPlan(String);

impl fmt::Display for MalformedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

type Result<T> = std::result::Result<T, MalformedPlan>;

fn malformed<T>(reason: impl Into<String>) -> Result<T> {
    Err(MalformedPlan(reason.into()))
}

impl PlanFile {
    /// Reads the plan of a file, compressed by gzip or not.
    ///
    /// # Errors
    /// When the file cannot be read, or the first thing that is wrong in it, with its line or its tensor.
    pub fn open(path: &Path) -> Result<Self> {
        match File::open(path) {
            Ok(file) => Self::read(BufReader::new(file)),
            Err(error) => malformed(error.to_string()),
        }
    }

    /// The same of any input.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn read(input: impl BufRead) -> Result<Self> {
        let input = decompressed(input).map_err(|error| MalformedPlan(format!("cannot be read: {error}")))?;
        let mut documents = serde_json::Deserializer::from_reader(input).into_iter::<Value>();
        let document = match documents.next() {
            None => return malformed("line 1: the file is empty"),
            Some(Err(error)) => return malformed(place_first(&error)),
            Some(Ok(Value::Object(document))) => document,
            Some(Ok(_)) => return malformed("line 1: a JSON object is expected"),
        };
        check_format(&document)?;
        match documents.next() {
            None => {}
            Some(Ok(_)) => {
                return malformed("there is more behind the first plan: a file with a single plan is wanted");
            }
            Some(Err(error)) => return malformed(format!("behind the plan: {}", place_first(&error))),
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

/// An error of JSON in the words of this tool.
fn place_first(error: &serde_json::Error) -> String {
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
        None => return malformed(format!("line 1: there is no format, and {name:?} is expected")),
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

/// Reads a list of objects; what has no other name is called by its position, counted from 0.
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
    let expected = || MalformedPlan(format!("{what}: {key} is {value}, and a whole number below 2^64 is expected"));
    value.as_u64().ok_or_else(expected)
}

/// What `plan` says of the tensors of a graph, by tensor.
pub(super) struct ById<'p> {
    /// Where each lies; the first where there are several.
    pub entries: Vec<Option<&'p PlannedTensor>>,
    /// Entries that name no tensor of the graph.
    pub unknown: Vec<u64>,
    /// Tensors with a second entry.
    pub twice: Vec<TensorId>,
}

impl<'p> ById<'p> {
    pub fn new(snapshot: &Snapshot, plan: &'p PlanFile) -> Self {
        let ids = snapshot.tensor_ids();
        let mut by_id = Self { entries: vec![None; snapshot.tensors.len()], unknown: Vec::new(), twice: Vec::new() };
        for entry in &plan.tensors {
            match ids.get(&entry.id) {
                None => by_id.unknown.push(entry.id),
                Some(&id) if by_id.entries[id as usize].is_some() => by_id.twice.push(id),
                Some(&id) => by_id.entries[id as usize] = Some(entry),
            }
        }
        by_id
    }
}
