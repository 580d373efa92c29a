//! Which files a C program consists of, and which cases it has.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Result, folder};

/// Returns what must be compiled for a program: `roots`, relative to the folder of the C programs, and the
/// implementations of all headers directly in `support/` that they include, themselves or through other files.
/// `support/random_graph.h` is implemented by `support/random_graph.c` and `support/random_graph/*.c`.
pub fn all_sources(roots: &[&str]) -> Result<Vec<PathBuf>> {
    let support = folder().join("support");
    let mut files: Vec<PathBuf> = roots.iter().map(|root| folder().join(root)).collect();
    let mut next = 0;
    while let Some(file) = files.get(next).cloned() {
        next += 1;
        for name in included(&file)? {
            let Some(header) = [file.with_file_name(&name), support.join(&name)].into_iter().find(|path| path.exists())
            else {
                // A header of ggml, or `lastuse.h`.
                continue;
            };
            let implementation = if header.parent() == Some(&support) { implementation(&header)? } else { Vec::new() };
            for file in implementation.into_iter().chain([header]) {
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension != "h"));
    Ok(files)
}

/// A case of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The name of its function.
    pub name: String,
    /// It needs what only lastuse's plans do.
    pub needs_lastuse: bool,
    /// It is compiled under a condition.
    pub is_conditional: bool,
}

/// Returns the cases in a source: lines that begin with `CASE(name` or another macro whose name contains CASE.
pub fn cases(source: &str) -> Vec<Case> {
    let (mut cases, mut conditions) = (Vec::new(), 0_usize);
    for line in source.lines() {
        if line.starts_with("#if") {
            conditions += 1;
        } else if line.starts_with("#endif") {
            conditions -= 1;
        }
        let is_macro = |word: &str| word.contains("CASE") && word.bytes().all(|c| c == b'_' || c.is_ascii_uppercase());
        if let Some((word, rest)) = line.split_once('(')
            && is_macro(word)
        {
            let name = rest.split([',', ')']).next().unwrap_or_default().to_owned();
            cases.push(Case { name, needs_lastuse: word.starts_with("LASTUSE_"), is_conditional: conditions > 0 });
        }
    }
    cases
}

/// The names between quotes in `#include`.
fn included(file: &Path) -> Result<Vec<String>> {
    let name = |line: &str| line.strip_prefix("#include \"")?.strip_suffix('"').map(str::to_owned);
    Ok(read(file)?.lines().filter_map(name).collect())
}

/// The files that define what a header of `support/` declares; none when the header holds all of it.
fn implementation(header: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::from_iter(Some(header.with_extension("c")).filter(|file| file.exists()));
    let folder = header.with_extension("");
    if folder.is_dir() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut parts: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        parts.retain(|part| part.extension().is_some_and(|extension| extension == "c"));
        parts.sort();
        files.extend(parts);
    }
    Ok(files)
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}
