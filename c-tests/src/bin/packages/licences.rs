//! The licences of the packages that are linked into programs of a release.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lastuse_c_tests::packages::output_of;
use lastuse_c_tests::{Result, folder};

const ABOUT: &str = "\
The tool and the libraries contain these packages of Rust, as their licences permit, and parts of Rust's standard library
(The Rust Project Developers, MIT OR Apache-2.0). Of packages with several licences, the text is that of the shortest.
";

/// Returns the names, the licences and their texts of the packages that these ones contain, for this target.
///
/// # Errors
/// The message of cargo, and a package without a text.
pub fn licences(packages: &[&str], target: &str) -> Result<String> {
    let mut tree = cargo("tree");
    tree.args(["--no-default-features", "--no-dedupe", "--prefix", "none", "--edges", "normal,no-proc-macro"]);
    tree.args(["--format", "{p}\t{l}", "--target", target]);
    tree.args(packages.iter().flat_map(|name| ["--package", name]));
    let folders = folders(target)?;
    let mut out = ABOUT.to_owned();
    for (package, licence) in linked(&output_of(tree)?) {
        let folder = folders.get(&package).ok_or_else(|| format!("cargo metadata has no package {package}"))?;
        let text = text(folder)?;
        let _ = write!(out, "\n== {package}: {licence} ==\n\n{}\n", text.trim_end());
    }
    Ok(out)
}

fn cargo(command: &str) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([command, "--locked", "--manifest-path"]).arg(folder().with_file_name("Cargo.toml"));
    cargo
}

/// Returns the packages of registries in the output of `cargo tree`, as `name version`, with their licences.
fn linked(tree: &str) -> BTreeMap<String, String> {
    let lines = tree.lines().filter_map(|line| line.split_once('\t'));
    let packages = lines.filter(|(package, _)| !package.contains('('));
    packages.map(|(package, licence)| (package.replacen(" v", " ", 1), licence.to_owned())).collect()
}

/// Returns the folders of packages.
fn folders(target: &str) -> Result<BTreeMap<String, PathBuf>> {
    let mut metadata = cargo("metadata");
    metadata.args(["--format-version", "1", "--filter-platform", target]);
    let text = output_of(metadata)?;
    // Cargo's lines of progress, if there are any, come behind it.
    let line = text.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    let found: serde_json::Value = serde_json::from_str(line).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = found["packages"].as_array().into_iter().flatten();
    let entries = packages.filter_map(|package| {
        let [name, version, file] = ["name", "version", "manifest_path"].map(|key| package[key].as_str());
        Some((format!("{} {}", name?, version?), Path::new(file?).parent()?.to_owned()))
    });
    Ok(entries.collect())
}

/// Returns the text of a licence of a package: the shortest, which the Apache licence is not.
fn text(folder: &Path) -> Result<String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(failed)?.flatten().map(|entry| entry.path());
    let is_licence = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        file.is_file() && ["LICEN", "COPYING", "UNLICENSE"].iter().any(|start| name.starts_with(start))
    };
    let texts = entries.filter(is_licence).map(fs::read_to_string).collect::<std::io::Result<Vec<_>>>();
    // Some are names of the others alone.
    let texts = texts.map_err(failed)?.into_iter().filter(|text| text.to_lowercase().contains("permi"));
    let shortest = texts.min_by_key(|text| (text.len(), text.clone()));
    shortest.ok_or_else(|| format!("{} has no text of a licence", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_the_tree_have_names_and_licences() {
        let tree = "lastuse v0.1.0 (/x)\tMIT\nlibc v0.2.1\tMIT OR Apache-2.0\n\nlibc v0.2.1\tMIT OR Apache-2.0\n";
        let found: Vec<_> = linked(tree).into_iter().collect();
        assert_eq!(found, [("libc 0.2.1".to_owned(), "MIT OR Apache-2.0".to_owned())]);
    }
}
