//! The shared libraries to preload, and whether a program would call them.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::elf::Elf;
use crate::foreign::unreadable;
use crate::launch::NotStarted;

/// A library to preload.
pub struct Library {
    name: &'static str,
    /// The package that builds it.
    package: &'static str,
    /// The library embedded in this tool.
    embedded: Option<&'static [u8]>,
}

/// The allocator.
pub const LASTUSE: Library = Library {
    name: "liblastuse.so",
    package: "lastuse",
    #[cfg(embedded)]
    embedded: Some(include_bytes!(env!("LASTUSE_EMBEDDED"))),
    #[cfg(not(embedded))]
    embedded: None,
};

/// The guard, which watches memory between the operations of a program, and dumps tensors.
pub const GUARD: Library = Library {
    name: "liblastuse_guard.so",
    package: "lastuse-guard",
    #[cfg(embedded_guard)]
    embedded: Some(include_bytes!(env!("LASTUSE_EMBEDDED_GUARD"))),
    #[cfg(not(embedded_guard))]
    embedded: None,
};

/// What a dry run needs: it stands in for the memory of buffers.
pub const MEASURE: Library = Library {
    name: "liblastuse_measure.so",
    package: "lastuse-measure",
    #[cfg(embedded_measure)]
    embedded: Some(include_bytes!(env!("LASTUSE_EMBEDDED_MEASURE"))),
    #[cfg(not(embedded_measure))]
    embedded: None,
};

impl Library {
    /// Finds the library next to this tool, in ../lib or in ../lib/lastuse, or else unpacks the embedded one.
    pub fn find(&self) -> Result<PathBuf, NotStarted> {
        if let Some(file) = self.beside_this_tool() {
            return check_name(file);
        }
        let Self { name, package, embedded } = self;
        let missing = || {
            NotStarted::failed(format!(
                "{name} is not next to this tool: `cargo build --release -p {package}` builds it"
            ))
        };
        embedded.ok_or_else(missing).and_then(|bytes| unpacked(name, bytes))
    }

    fn beside_this_tool(&self) -> Option<PathBuf> {
        let tool = std::env::current_exe().and_then(|tool| tool.canonicalize()).ok()?;
        places(&tool)?.into_iter().map(|folder| folder.join(self.name)).find(|file| file.is_file())
    }
}

/// Folders with the libraries of a tool: its own, that of libraries to be linked, and that of libraries which no program is
/// linked with.
fn places(tool: &Path) -> Option<[PathBuf; 3]> {
    let folder = tool.parent()?;
    let libraries = folder.parent()?.join("lib");
    let private = libraries.join("lastuse");
    Some([folder.to_owned(), libraries, private])
}

/// Finds the allocator: the file given, or that of LASTUSE_LIBRARY, or the nearest one.
pub fn find(given: Option<&Path>) -> Result<PathBuf, NotStarted> {
    let variable = std::env::var_os("LASTUSE_LIBRARY").filter(|value| !value.is_empty()).map(PathBuf::from);
    let Some(file) = given.map(Path::to_owned).or(variable) else { return LASTUSE.find() };
    let unusable = |why: String| NotStarted::failed(format!("the library {} cannot be used: {why}", file.display()));
    let found = file.canonicalize().map_err(|error| unusable(unreadable(&file, &error)))?;
    check_content(&found).map_err(|why| unusable(why.to_owned()))?;
    check_name(found)
}

/// Refuses files that are not the allocator: any other one would be preloaded without effect, or break the program.
pub fn check_content(file: &Path) -> Result<(), &'static str> {
    if file.is_dir() {
        return Err("it is a folder");
    }
    let uses = Elf::open(file).map(|elf| elf.uses([ALLOCATOR, VERSION]));
    let is_lastuse = uses.is_some_and(|uses| uses.iter().all(|uses| uses.exports));
    if is_lastuse { Ok(()) } else { Err("it is not the library of lastuse") }
}

/// Refuses names with a space or a colon, which separate names in LD_PRELOAD.
pub fn check_name(file: PathBuf) -> Result<PathBuf, NotStarted> {
    if file.to_string_lossy().contains([' ', ':']) {
        let message = "a library with a space or a colon in its path cannot be preloaded";
        return Err(NotStarted::failed(format!("{}: {message}; copy it elsewhere, and set --library", file.display())));
    }
    Ok(file)
}

/// Unpacks an embedded library into the user's cache folder, once per version.
fn unpacked(name: &str, bytes: &[u8]) -> Result<PathBuf, NotStarted> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let home = || std::env::home_dir().map(|home| home.join(".cache"));
    let folder = cache.or_else(home).unwrap_or_else(std::env::temp_dir).join("lastuse").join(env!("CARGO_PKG_VERSION"));
    let file = check_name(folder.join(name))?;
    if std::fs::read(&file).is_ok_and(|content| content == bytes) {
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
        let message = format!("cannot unpack the library to {}: {error}; set --library", file.display());
        NotStarted::failed(message)
    })?;
    Ok(file)
}

/// A function that ggml-alloc and lastuse have, and one that only lastuse has.
pub const ALLOCATOR: &str = "ggml_gallocr_new_n";
pub const VERSION: &str = "lastuse_version";

/// Returns whether lastuse is linked into the program, so that it need not be preloaded. A file that is not an ELF
/// binary, such as a script, is assumed to start a program that loads ggml.
///
/// # Errors
/// The program would never call a preloaded library.
pub fn has_lastuse(program: &Path) -> Result<bool, NotStarted> {
    let Some(elf) = Elf::open(program) else { return Ok(false) };
    let [allocator, lastuse] = elf.uses([ALLOCATOR, VERSION]).map(|uses| uses.defines);
    let refuse = |why: &str| Err(NotStarted::failed(format!("{}: {why}", program.display())));
    if allocator && lastuse {
        return Ok(true);
    }
    if !elf.has_loader() {
        return refuse(
            "the program is linked statically, so no library can be preloaded; link liblastuse.a before libggml-base.a when \
             you build it (docs/linking.md)",
        );
    }
    if allocator {
        return refuse(
            "ggml is linked into it statically, so a preloaded library is never called; build it with a shared ggml \
             (llama.cpp: cmake -DBUILD_SHARED_LIBS=ON), or link liblastuse.a before libggml-base.a (docs/linking.md)",
        );
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_a_package_are_in_a_folder_for_it_alone() {
        let folders = places(Path::new("/usr/bin/lastuse")).expect("it is in a folder");
        assert_eq!(folders.map(|folder| folder.display().to_string()), ["/usr/bin", "/usr/lib", "/usr/lib/lastuse"]);
    }
}
