//! `--help` at any width, `-v`, and the list of commands.

use super::{command, printed};
use crate::support::tool;

/// The commands in the order of use.
const COMMANDS: [&str; 16] = [
    "run",
    "measure",
    "enable",
    "disable",
    "explain",
    "draw",
    "compare",
    "plan",
    "check",
    "convert",
    "offload",
    "neurons",
    "accounting",
    "reach",
    "completions",
    "man",
];

/// The help of a command, or of the tool, in a terminal of this width.
fn help(arguments: &[&str], width: usize) -> String {
    let output = command(arguments).env("COLUMNS", width.to_string()).output().expect("the tool starts");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", tool::stderr(&output));
    tool::stdout(&output).to_owned()
}

#[test]
fn commands_are_listed_in_the_order_of_use_on_one_line_each() {
    let help = help(&["--help"], 80);
    let list: Vec<&str> = help.lines().skip_while(|line| *line != "Commands:").skip(1).collect();
    let list: Vec<&str> = list.into_iter().take_while(|line| !line.is_empty()).collect();
    let names: Vec<&str> = list.iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names[..names.len() - 1], COMMANDS, "{help}");
    assert_eq!(names.last(), Some(&"help"), "{help}");
    let has_summary = |line: &&str| line.starts_with("  ") && line.split_whitespace().count() > 3 && line.len() <= 80;
    assert!(list.iter().all(has_summary), "{help}");
}

#[test]
fn help_wraps_to_the_terminal() {
    let all = COMMANDS.iter().map(|name| vec![*name, "--help"]).chain([vec!["--help"]]);
    for arguments in all {
        for width in [80, 100] {
            let help = help(&arguments, width);
            let longest = help.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(longest <= width, "{arguments:?}: {longest} of {width} columns:\n{help}");
        }
        let (narrow, wide) = (help(&arguments, 60), help(&arguments, 160));
        assert!(narrow.lines().count() > wide.lines().count(), "{arguments:?}:\n{wide}");
    }
}

#[test]
fn examples_of_the_help_fit_a_terminal_of_80_columns() {
    for name in COMMANDS {
        let (at_80, at_160) = (help(&[name, "--help"], 80), help(&[name, "--help"], 160));
        let examples = |help: &str| {
            let from = help.lines().skip_while(|line| *line != "Examples:");
            from.take_while(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(examples(&at_160).len() > 1, "{name} has no example:\n{at_160}");
        assert_eq!(examples(&at_80), examples(&at_160), "{name}");
    }
}

#[test]
fn version_has_a_letter() {
    let expected = format!("lastuse {}\n", env!("CARGO_PKG_VERSION"));
    for option in ["-V", "--version"] {
        assert_eq!(printed(&[option]), expected, "{option}");
    }
}
