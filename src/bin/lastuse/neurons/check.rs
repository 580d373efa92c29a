//! `--check`: whether a file follows every rule.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use lastuse_neurons::gpuidx::{GpuIndex, KnownModel};
use lastuse_neurons::report::{checked_index_json, checked_index_text};

use crate::print::print;

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 30;

/// Checks a file, and prints the result.
pub fn run(path: &Path, model: &KnownModel, json: bool) -> Result<ExitCode, String> {
    let cannot = |reason: String| format!("{}: {reason}", path.display());
    let mut content = Vec::new();
    let file = File::open(path).map_err(|error| cannot(error.to_string()))?;
    file.take(MAX_FILE + 1).read_to_end(&mut content).map_err(|error| cannot(error.to_string()))?;
    if content.len() as u64 > MAX_FILE {
        return Err(cannot(format!("it has more than {MAX_FILE} bytes; no model has so many neurons")));
    }
    let (file, defects) = match GpuIndex::read(&content) {
        Ok(read) => {
            let defects = read.0.compare_with_model(model);
            (Some(read), defects)
        }
        Err(malformed) => (None, malformed.defects),
    };
    let text = if json {
        checked_index_json(file.as_ref(), &defects).map_err(|error| error.to_string())? + "\n"
    } else {
        checked_index_text(file.as_ref(), &defects)
    };
    print(text.as_bytes())?;
    Ok(if defects.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
