//! `docs/production.md`: the variables of its unit for systemd have lastuse serve a program, and the log is that line.

use std::process::Command;

use lastuse_c_tests::clear_variables;

use super::{Page, page, program};
use crate::support;

/// Returns the variables of the unit that the page shows.
fn variables(page: &Page) -> Vec<(&str, &str)> {
    let unit = page.text.split("```ini\n[Service]\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a unit");
    let assignments = unit.lines().filter_map(|line| line.strip_prefix("Environment="));
    assignments.map(|assignment| assignment.split_once('=').expect("NAME=VALUE")).collect()
}

/// Returns a line of the log without the time in it.
fn without_time(line: &str) -> String {
    let (before, rest) = line.split_once(" plan in ").unwrap_or_else(|| panic!("{line:?} has no time"));
    let (_, after) = rest.split_once(" us").expect("microseconds");
    format!("{before} plan{after}")
}

#[test]
fn variables_of_the_unit_have_lastuse_log_its_plans() {
    let page = page("docs/production.md");
    let library = support::checked().shared;
    let mut command = Command::new(program());
    clear_variables(&mut command);
    command.args(["--layers", "8", "--prompt", "512", "--decode", "1", "--threads", "1"]);
    let variables = variables(&page);
    assert_eq!(variables.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["LD_PRELOAD", "LASTUSE_LOG"]);
    for (name, value) in variables {
        match name {
            "LD_PRELOAD" => {
                assert!(library.ends_with(value.rsplit('/').next().expect("a file")), "{value}");
                command.env(name, &library);
            }
            _ => _ = command.env(name, value),
        }
    }
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let start = "lastuse: allocator 1:";
    let log = support::tool::stderr(&output);
    let logged = log.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no plan in {log}"));
    let quoted = page.text.lines().map(str::trim).find(|line| line.starts_with(start)).expect("a line of the log");
    assert_eq!(without_time(quoted), without_time(logged));
}

/// What the page says of a library that is missing is what the dynamic linker does.
#[test]
fn a_missing_library_is_ignored() {
    let mut command = Command::new(program());
    clear_variables(&mut command);
    command.args(["--layers", "1", "--prompt", "8", "--decode", "1", "--threads", "1"]);
    let output = command.env("LD_PRELOAD", "/none/liblastuse.so").output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let log = support::tool::stderr(&output);
    assert!(log.contains("cannot be preloaded") && log.contains("ignored"), "{log}");
}
