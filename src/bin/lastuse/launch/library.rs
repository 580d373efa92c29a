//! Where the shared library is.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::NotStarted;

/// A library to preload.
pub struct Library {
    name: &'static str,
    /// The package that makes it.
    package: &'static str,
    /// The library inside this tool.
    embedded: Option<&'static [u8]>,
}

/// lastuse itself.
pub const LASTUSE: Library = Library {
    name: "liblastuse.so",
    package: "lastuse",
    #[cfg(embedded)]
    embedded: Some(include_bytes!(env!("LASTUSE_EMBEDDED"))),
    #[cfg(not(embedded))]
    embedded: None,
};

/// What watches the operations of a program that knows nothing of it.
pub const GUARD: Library = Library {
    name: "liblastuse_guard.so",
    package: "lastuse-guard",
    #[cfg(embedded_guard)]
    embedded: Some(include_bytes!(env!("LASTUSE_EMBEDDED_GUARD"))),
    #[cfg(not(embedded_guard))]
    embedded: None,
};

impl Library {
    /// The nearest one: beside this tool or in ../lib, or the one that this tool carries.
    pub fn find(&self) -> Result<PathBuf, NotStarted> {
        if let Some(file) = self.beside_this_tool() {
            return check_name(file);
        }
        let Self { name, package, embedded } = self;
        let missing = || {
            NotStarted::failed(format!("{name} is not beside this tool: `cargo build --release -p {package}` makes it"))
        };
        embedded.ok_or_else(missing).and_then(|bytes| unpacked(name, bytes))
    }

    fn beside_this_tool(&self) -> Option<PathBuf> {
        let tool = std::env::current_exe().and_then(|tool| tool.canonicalize()).ok()?;
        let folder = tool.parent()?;
        let places = [folder.join(self.name), folder.parent()?.join("lib").join(self.name)];
        places.into_iter().find(|file| file.is_file())
    }
}

/// lastuse as it was named, or the nearest one.
pub fn find(named: Option<&Path>) -> Result<PathBuf, NotStarted> {
    let variable = std::env::var_os("LASTUSE_LIBRARY").filter(|value| !value.is_empty()).map(PathBuf::from);
    let Some(file) = named.map(Path::to_owned).or(variable) else { return LASTUSE.find() };
    let missing = |error| NotStarted::failed(format!("the library {} cannot be used: {error}", file.display()));
    check_name(file.canonicalize().map_err(missing)?)
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
fn unpacked(name: &str, bytes: &[u8]) -> Result<PathBuf, NotStarted> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let allocation = || std::env::home_dir().map(|allocation| allocation.join(".cache"));
    let folder =
        cache.or_else(allocation).unwrap_or_else(std::env::temp_dir).join("lastuse").join(env!("CARGO_PKG_VERSION"));
    let file = check_name(folder.join(name))?;
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
