//! The versions in `docs/compatibility.md` are those that are pinned, or those that the page of hosts has.

use std::fs;

use lastuse_vendor::Package;

use super::{matching, repository, tables};
use crate::support::ggml;

/// Returns the packages that the manifests of `vendor/packages` pin: "whisper-rs-sys 0.15.0".
fn pinned() -> Vec<String> {
    let folders = matching("vendor/packages/*").into_iter().chain(["vendor/packages".to_owned()]);
    let files = folders.map(|folder| repository().join(folder).join("Cargo.toml"));
    let texts = files.filter_map(|file| fs::read_to_string(file).ok());
    let pins = texts.flat_map(|text| {
        let pin = |line: &str| {
            line.split_once(" = \"=").map(|(name, version)| format!("{name} {}", version.trim_matches('"')))
        };
        text.lines().filter_map(pin).collect::<Vec<_>>()
    });
    pins.collect()
}

#[test]
fn programs_are_those_that_are_run() {
    let [page, hosts, packages] =
        ["docs/compatibility.md", "docs/internals/hosts.md", "docs/internals/packages.md"].map(super::page);
    let linked = |name: &str| format!("({}#", name.trim_start_matches("docs/"));
    let tables = tables(&page);
    let table = tables.iter().find(|table| table[0][0] == "program").expect("the table of programs");
    let pinned = pinned();
    for row in &table[1..] {
        // What is not pinned is on the page that the row links to.
        if let Some(source) = [&hosts, &packages].into_iter().find(|page| row[4].contains(&linked(&page.name))) {
            assert!(source.text.contains(row[1]) && source.text.contains(row[2]), "{}: {row:?}", source.name);
        } else {
            assert!(pinned.iter().any(|pin| pin == row[1]), "{} is not one of {pinned:?}", row[1]);
        }
    }
    assert!(pinned.iter().all(|pin| table.iter().any(|row| row[1] == pin)), "the page lacks one of {pinned:?}");
    for package in [Package::LlamaCpp, Package::WhisperCpp] {
        let version = ggml(package).version;
        assert!(table.iter().any(|row| row[2] == version), "no row has ggml {version}");
    }
}
