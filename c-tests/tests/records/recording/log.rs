//! LASTUSE_LOG: which lines go to standard error, and which to the logger of the program.

use std::ffi::OsStr;

use super::run;

const REFUSAL: &str = "lastuse_set: rules: unknown rule \"no-such-rule\"";

/// Returns the lines on standard error, and those of the logger of the program, if it has one.
fn logged_lines(level: Option<&str>, with_logger: bool) -> (Vec<String>, Vec<String>) {
    let arguments: &[&str] = if with_logger { &["every_level", "1"] } else { &["every_level"] };
    let variables: Vec<(&str, &OsStr)> = level.map(|level| ("LASTUSE_LOG", OsStr::new(level))).into_iter().collect();
    let outcome = run(arguments, &variables);
    let logged = outcome.stdout.lines().filter_map(|line| line.strip_prefix("logger "));
    (outcome.stderr.lines().map(str::to_owned).collect(), logged.map(str::to_owned).collect())
}

fn assert_starts(lines: &[String], starts: &[&str]) {
    assert_eq!(lines.len(), starts.len(), "{lines:?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line:?} does not start with {start:?}");
    }
}

#[test]
fn by_default_ggmls_logger_gets_errors_alone() {
    let (stderr, logged) = logged_lines(None, false);
    assert_starts(&stderr, &[REFUSAL]);
    assert_eq!(logged, [""; 0]);
    let (stderr, logged) = logged_lines(None, true);
    assert_eq!(stderr, [""; 0]);
    assert_starts(&logged, &[&format!("4 {REFUSAL}")]);
    for off in ["", "off", "False"] {
        assert_eq!(logged_lines(Some(off), true).0, [""; 0], "{off:?}");
    }
}

#[test]
fn each_level_includes_the_more_severe_ones() {
    let error = format!("lastuse: {REFUSAL}");
    let info = "lastuse: allocator 1: 1 leafs and 2 nodes are planned (1 plan in ";
    let debug = "lastuse: allocator 1: allocate 1 leafs and 2 nodes: the graph was planned, ";
    for (level, expected) in [
        ("error", vec![&*error]),
        ("Error", vec![&error]),
        ("warn", vec![&error]),
        ("info", vec![info, &error]),
        ("debug", vec![info, debug, &error]),
    ] {
        let (stderr, _) = logged_lines(Some(level), false);
        assert_starts(&stderr, &expected);
    }
    let (stderr, _) = logged_lines(Some("info"), false);
    assert!(stderr[0].contains("; CPU: ") && stderr[0].contains(" bytes, lower bound "), "{stderr:?}");
}

/// The program's own logger may show its lines anywhere.
#[test]
fn logger_of_the_program_gets_the_same_lines() {
    let (stderr, logged) = logged_lines(Some("debug"), true);
    assert_eq!(stderr.len(), 3);
    let levels: Vec<&str> = logged.iter().map(|line| &line[..1]).collect();
    assert_eq!(levels, ["2", "1", "4"]);
    for (line, logged) in stderr.iter().zip(&logged) {
        assert_eq!(line.strip_prefix("lastuse: "), Some(&logged[2..]));
    }
}

#[test]
fn unknown_word_is_reported_and_has_no_effect() {
    let (stderr, _) = logged_lines(Some("loud"), false);
    let report =
        "lastuse 0.1.0: LASTUSE_LOG has no effect: \"loud\" is unknown; expected error, warn, info, debug, off";
    assert_starts(&stderr, &[report, REFUSAL]);
}

#[test]
fn messages_that_name_lastuse_name_it_once() {
    let variables = [("LASTUSE_LOG", OsStr::new("error")), ("LASTUSE_RULES", OsStr::new("wrong"))];
    let outcome = run(&["one_graph"], &variables);
    assert!(outcome.stderr.starts_with("lastuse: LASTUSE_RULES has no effect: "), "{}", outcome.stderr);
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
}
