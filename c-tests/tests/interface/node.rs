//! What the package for Node repeats of the library: the names of settings, the version.

use std::fs;

use lastuse::settings::{Key, SETTINGS, Setting};
use lastuse_c_tests::folder;

fn file(name: &str) -> String {
    let file = folder().with_file_name("packaging/node").join(name);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// `LASTUSE` itself is set for a whole process, not by a program.
#[test]
fn settings_are_those_of_the_environment() {
    let mut expected: Vec<String> =
        SETTINGS.iter().filter(|setting| setting.key != Key::Switch).map(Setting::name).collect();
    expected.sort();
    for (name, start, end) in [("index.js", "const settings = [", "];"), ("index.d.ts", "type Setting =", ";")] {
        let text = file(name);
        let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("{name} has no {start:?}"));
        let list = rest.split_once(end).expect("the list has an end").0;
        let mut names: Vec<&str> = list.split('\'').skip(1).step_by(2).collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{name}");
    }
}

#[test]
fn its_version_is_that_of_lastuse() {
    let description = file("package.json");
    let version = format!("\n  \"version\": \"{}\",\n", env!("CARGO_PKG_VERSION"));
    assert!(description.contains(&version), "{description}");
}
