//! Where the shared library is.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::NotStarted;

const NAME: &str = "liblastuse.so";

/// The library inside this tool.
#[cfg(embedded)]
const EMBEDDED: Option<&[u8]> = Some(include_bytes!(env!("LASTUSE_EMBEDDED")));
#[cfg(not(embedded))]
const EMBEDDED: Option<&[u8]> = None;

/// The library that was named, or the nearest one.
pub fn find(named: Option<&Path>) -> Result<PathBuf, NotStarted> {
    let variable = std::env::var_os("LASTUSE_LIBRARY").filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(file) = named.map(Path::to_owned).or(variable) {
        let missing = |error| NotStarted::failed(format!("the library {} cannot be used: {error}", file.display()));
        let absolute = file.canonicalize().map_err(missing)?;
        return check_name(absolute);
    }
    if let Some(file) = beside_this_tool() {
        return check_name(file);
    }
    let missing = || {
        NotStarted::failed(format!(
            "{NAME} is not beside this tool: build it with `cargo build --release -p lastuse`, and name it by --library"
        ))
    };
    EMBEDDED.ok_or_else(missing).and_then(unpacked)
}

fn beside_this_tool() -> Option<PathBuf> {
    let tool = std::env::current_exe().and_then(|tool| tool.canonicalize()).ok()?;
    let folder = tool.parent()?;
    let places = [folder.join(NAME), folder.parent()?.join("lib").join(NAME)];
    places.into_iter().find(|file| file.is_file())
}

/// The dynamic loader takes spaces and colons for the end of a name.
fn check_name(file: PathBuf) -> Result<PathBuf, NotStarted> {
    if file.to_string_lossy().contains([' ', ':']) {
        let message = "a library with a space or a colon in its path cannot be preloaded";
        return Err(NotStarted::failed(format!(
            "{}: {message}; copy it elsewhere and name it by --library",
            file.display()
        )));
    }
    Ok(file)
}

/// Puts the library that this tool carries into the user's folder of caches, once for each version.
fn unpacked(bytes: &[u8]) -> Result<PathBuf, NotStarted> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let home = || std::env::home_dir().map(|home| home.join(".cache"));
    let folder = cache.or_else(home).unwrap_or_else(std::env::temp_dir).join("lastuse").join(env!("CARGO_PKG_VERSION"));
    let file = check_name(folder.join(NAME))?;
    if std::fs::read(&file).is_ok_and(|there| there == bytes) {
        return Ok(file);
    }
    let write = || -> io::Result<()> {
        std::fs::create_dir_all(&folder)?;
        let mut fresh = tempfile::NamedTempFile::new_in(&folder)?;
        fresh.write_all(bytes)?;
        fresh.persist(&file)?;
        Ok(())
    };
    write().map_err(|error| {
        let message = format!("cannot unpack the library to {}: {error}; name one by --library", file.display());
        NotStarted::failed(message)
    })?;
    Ok(file)
}
