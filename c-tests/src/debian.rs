//! Debian packages that a host needs, recognized by the files that they install.

use std::path::Path;

use crate::Result;

/// A package, and how it is known to be there.
#[derive(Debug)]
pub struct Needed {
    /// Its name.
    pub package: &'static str,
    /// What it has.
    pub has: Has,
}

/// A file that a package installs.
#[derive(Debug)]
pub enum Has {
    /// A program on the PATH.
    Program(&'static str),
    /// One of these files; a name may end in `*`.
    File(&'static [&'static str]),
}

/// Checks that all packages are there.
///
/// # Errors
/// The missing packages, and the command that installs them.
pub fn check(host: &str, needed: &[Needed]) -> Result<()> {
    let missing: Vec<&Needed> = needed.iter().filter(|needed| !needed.has.is_there()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let things: Vec<String> = missing.iter().map(|needed| needed.has.describe()).collect();
    let packages: Vec<&str> = missing.iter().map(|needed| needed.package).collect();
    let (things, packages) = (things.join(", "), packages.join(" "));
    Err(format!("{host} needs {things}: apt-get install -y --no-install-recommends {packages}"))
}

impl Has {
    fn is_there(&self) -> bool {
        match self {
            Self::Program(name) => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
            }
            Self::File(files) => files.iter().any(|file| exists(Path::new(file))),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Program(name) => (*name).to_owned(),
            Self::File(files) => files.join(" or "),
        }
    }
}

/// Returns whether a file is there; the last part of its path may end in `*`.
fn exists(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    match (name.strip_suffix('*'), file.parent()) {
        (Some(start), Some(folder)) => std::fs::read_dir(folder)
            .is_ok_and(|entries| entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(start))),
        _ => file.is_file(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_packages_are_named_with_the_command() {
        let there = Needed { package: "bash", has: Has::Program("sh") };
        const FILES: &[&str] = &["/no/such/file", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.t*")];
        let also_there = Needed { package: "cargo", has: Has::File(FILES) };
        assert_eq!(check("a", &[there, also_there]), Ok(()));
        let missing = [
            Needed { package: "one", has: Has::Program("no-such-program") },
            Needed { package: "two", has: Has::File(&["/no/such/folder/x*", "/no/such/file"]) },
        ];
        let expected = "a needs no-such-program, /no/such/folder/x* or /no/such/file: apt-get install -y \
                        --no-install-recommends one two";
        assert_eq!(check("a", &missing), Err(expected.to_owned()));
    }
}
