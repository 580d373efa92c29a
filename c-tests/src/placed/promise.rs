//! What `lastuse offload` promises.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::program::PlacedProgram;
use crate::{Outcome, Program, Result};

/// The bytes of a device that a placement takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promised {
    /// The name of the device.
    pub name: String,
    /// In buffers of weights.
    pub weights: u64,
    /// In buffers of caches.
    pub kv: u64,
    /// In the compute buffer.
    pub compute: u64,
    /// All of it.
    pub total: u64,
}

/// A placement within budgets, and the arguments by which llama.cpp makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The devices but for the host, in the order in which they were given.
    pub devices: Vec<Promised>,
    /// The arguments.
    pub arguments: Vec<String>,
}

/// Asks the tool for a placement on these devices, `NAME=BYTES` with their properties. `None` if there is none within them.
///
/// # Errors
/// When the tool fails otherwise.
pub fn place(
    program: &PlacedProgram,
    model: &Path,
    graphs: &[PathBuf],
    devices: &[String],
    arguments: &[&str],
) -> Result<Option<Promise>> {
    let mut all = vec!["offload".to_owned()];
    all.extend(graphs.iter().map(|file| file.to_string_lossy().into_owned()));
    all.extend(devices.iter().flat_map(|device| ["--device".to_owned(), device.clone()]));
    all.extend(["--model".to_owned(), model.to_string_lossy().into_owned(), "--json".to_owned()]);
    all.extend(arguments.iter().map(|&argument| argument.to_owned()));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    answer(&Program::existing(program.tool()).run(&all)?)
}

/// Asks for one for the program with these arguments of its own, as users do.
///
/// # Errors
/// When the tool fails otherwise, or finds that the promise is not kept.
pub fn place_program(
    program: &PlacedProgram,
    model: &Path,
    own: &[String],
    devices: &[String],
    arguments: &[&str],
) -> Result<Option<Promise>> {
    let mut all = vec!["offload", "--json"];
    all.extend(devices.iter().flat_map(|device| ["--device", device]));
    all.extend(arguments);
    let outcome = program.with_tool(&all, model, own)?;
    answer(&outcome)
}

/// Reads what the tool has printed.
fn answer(outcome: &Outcome) -> Result<Option<Promise>> {
    let json: Value =
        serde_json::from_str(&outcome.stdout).map_err(|error| format!("{error}: {}", outcome.describe()))?;
    match (outcome.code, json["fits"].as_bool()) {
        (Some(0), Some(true)) => read(&json).map(Some).ok_or_else(|| format!("no placement: {json}")),
        (Some(1), Some(false)) => Ok(None),
        _ => Err(outcome.describe()),
    }
}

fn read(json: &Value) -> Option<Promise> {
    let promised = |device: &Value| {
        let number = |key: &str| device[key].as_u64();
        Some(Promised {
            name: device["name"].as_str()?.to_owned(),
            weights: number("weights")?,
            kv: number("kv")?,
            compute: number("compute")?,
            total: number("total")?,
        })
    };
    let mut devices = json["devices"].as_array()?.iter().map(promised).collect::<Option<Vec<_>>>()?;
    devices.pop()?; // The host.
    let arguments = json["llama_cpp"].as_array()?.iter().map(|argument| argument.as_str().map(str::to_owned));
    Some(Promise { devices, arguments: arguments.collect::<Option<Vec<_>>>()? })
}
