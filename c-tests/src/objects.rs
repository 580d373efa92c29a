//! Object files that are compiled once in a process: most programs of a test have the files of `support/` in common.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use crate::Result;

/// The bytes of an object file, once it is compiled.
type Compiled = Arc<OnceLock<Result<Vec<u8>>>>;

/// By the command that compiles it.
static COMPILED: LazyLock<Mutex<HashMap<String, Compiled>>> = LazyLock::new(Mutex::default);

/// Compiles `object` by `command`, which lacks only the output, or copies its earlier output.
///
/// # Errors
/// The message of the compiler.
pub fn compile(mut command: Command, object: &Path) -> Result<()> {
    let failed = |error| format!("{}: {error}", object.display());
    let compiled = {
        let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        let key = format!("{:?} {command:?}", command.get_current_dir());
        Arc::clone(compiled.entry(key).or_default())
    };
    let bytes = compiled.get_or_init(|| {
        lastuse_vendor::run(command.arg("-o").arg(object))?;
        fs::read(object).map_err(failed)
    });
    bytes.as_ref().map_err(Clone::clone).and_then(|bytes| fs::write(object, bytes).map_err(failed))
}
