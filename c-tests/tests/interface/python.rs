//! What the Python package repeats of the library: the fields of the statistics, the names of settings, the version.

use std::fs;

use lastuse::settings::{SETTINGS, Setting};
use lastuse_c_tests::folder;

fn file(path: &str) -> String {
    let file = folder().with_file_name(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The lines between two others.
fn between<'t>(text: &'t str, first: &str, last: &str) -> Vec<&'t str> {
    let (_, rest) = text.split_once(first).unwrap_or_else(|| panic!("there is no {first:?}"));
    rest.split_once(last).expect("an end").0.lines().map(str::trim).collect()
}

#[test]
fn statistics_have_the_fields_of_the_header() {
    let (header, library) = (file("include/lastuse.h"), file("packaging/python/src/lastuse/_library.py"));
    let declared = between(&header, "struct lastuse_stats {", "};").into_iter().filter_map(|line| {
        let (kind, name) = line.strip_suffix(';')?.split_once(' ')?;
        Some(format!("(\"{name}\", ctypes.c_{}),", if kind == "uint64_t" { "uint64" } else { kind }))
    });
    let declared: Vec<String> = declared.collect();
    assert!(declared.len() > 5, "{declared:?}");
    let fields = between(&library, "_fields_ = [", "    ]");
    assert_eq!(fields.iter().filter(|line| !line.is_empty()).collect::<Vec<_>>(), declared.iter().collect::<Vec<_>>());
}

#[test]
fn settings_are_those_of_the_process() {
    let library = file("packaging/python/src/lastuse/_library.py");
    let names = between(&library, "SETTINGS = (", ")");
    let names: Vec<&str> = names.iter().map(|line| line.trim_matches(['"', ','])).filter(|it| !it.is_empty()).collect();
    let expected: Vec<String> = SETTINGS.iter().filter(|setting| setting.is_of_process()).map(Setting::name).collect();
    assert_eq!(names, expected);
}

#[test]
fn its_version_is_that_of_lastuse() {
    let project = file("packaging/python/pyproject.toml");
    assert!(project.contains(&format!("\nversion = \"{}\"\n", env!("CARGO_PKG_VERSION"))), "{project}");
}
