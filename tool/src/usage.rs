//! The command line: how it is read, how failures are told, and their exit codes.

use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::num::ParseIntError;
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, Error, FromArgMatches};

use crate::input::is_graph_name;
use crate::launch::FAILED;
use crate::output::{print_error, print_styled_error};

/// Wrong usage, for commands whose exit code is their own.
const WRONG_USAGE: u8 = 2;

/// The commands whose exit code is that of a program: all their own failures have one code, as those of `env` and `timeout`.
const RUN_PROGRAMS: [&str; 3] = ["run", "compare", "measure"];

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The command line asks for something that the command does not do.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: WRONG_USAGE, message: format!("{}; see --help", message.into()) }
    }

    /// The command line asks for something that is not done with a file of its kind.
    pub fn wrong_kind(message: impl Into<String>) -> Self {
        Self { code: WRONG_USAGE, message: message.into() }
    }

    /// Fails with an exit code.
    pub fn with_code(code: u8, message: String) -> Self {
        Self { code, message }
    }

    /// Names the file that it is about.
    pub fn of_file(self, file: &Path) -> Self {
        Self { message: format!("{}: {}", file.display(), self.message), ..self }
    }

    /// Prints the message, and returns the exit code.
    pub fn report(self) -> ExitCode {
        ExitCode::from(self.report_code())
    }

    /// Prints the message, and returns the number of the exit code.
    pub fn report_code(self) -> u8 {
        print_error(&self.message);
        self.code
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { code: 1, message }
    }
}

/// Reads the command line of the process. Exits if that asks for help or the version, or is wrong.
pub fn parse<A: CommandFactory + FromArgMatches>() -> A {
    let mut command = with_negative_numbers(A::command());
    let words = with_program_apart(&command, std::env::args_os().collect());
    let matches = command.try_get_matches_from_mut(words);
    let parsed = matches.and_then(|matches| A::from_arg_matches(&matches).map_err(|error| error.format(&mut command)));
    parsed.unwrap_or_else(|error| {
        if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            error.exit();
        }
        print_styled_error(&message(error));
        let name = std::env::args_os().nth(1).unwrap_or_default();
        let runs_program = RUN_PROGRAMS.iter().any(|command| name == OsStr::new(command));
        std::process::exit(if runs_program { FAILED } else { WRONG_USAGE }.into())
    })
}

/// The command that takes a program in place of its files, in the end.
const FILES_OR_PROGRAM: &str = "offload";

/// Puts "--" before the program that such a command is given, since the options behind that are the program's.
fn with_program_apart(command: &Command, mut words: Vec<OsString>) -> Vec<OsString> {
    let Some(command) = command.find_subcommand(FILES_OR_PROGRAM) else { return words };
    if words.get(1).is_none_or(|word| word != FILES_OR_PROGRAM) {
        return words;
    }
    let is_option_with_value = |word: &str| {
        let is_this = |arg: &&Arg| match word.strip_prefix("--") {
            Some(long) => arg.get_long() == Some(long),
            None => arg.get_short().is_some_and(|short| word.strip_prefix('-') == Some(short.encode_utf8(&mut [0; 4]))),
        };
        command.get_arguments().find(is_this).is_some_and(|arg| arg.get_action().takes_values())
    };
    let mut at = 2;
    while let Some(word) = words.get(at) {
        let text = word.to_string_lossy();
        if text == "--" {
            break;
        }
        if !text.starts_with('-') || text == "-" {
            if is_program(Path::new(word)) {
                words.insert(at, "--".into());
            }
            break;
        }
        at += if is_option_with_value(&text) { 2 } else { 1 };
    }
    words
}

/// Returns whether a word is the name of a program, and not that of a graph or a folder here.
fn is_program(word: &Path) -> bool {
    let is_file_here = word.components().count() == 1 && word.exists();
    !is_file_here && !word.is_dir() && !is_graph_name(word) && which::which(word).is_ok()
}

/// Has options take a negative number for a wrong value, and not for another option.
fn with_negative_numbers(command: Command) -> Command {
    let takes_negative = |arg: Arg| {
        let is_option = !arg.is_positional() && arg.get_action().takes_values();
        if is_option { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(takes_negative).mut_subcommands(with_negative_numbers)
}

/// Returns the message of an error, in colour: what is wrong, and where to read on.
fn message(mut error: Error) -> String {
    // "use '-- --rules'" helps nobody.
    error.remove(ContextKind::Suggested);
    if error.kind() == ErrorKind::ValueValidation
        && error.source().is_some_and(|why| why.is::<ParseIntError>())
        && let (Some(ContextValue::String(option)), Some(ContextValue::String(value))) =
            (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    {
        return format!(
            "invalid value '{value}' for '{option}': not a whole number, or too large\n\nFor more information, try '--help'.\n"
        );
    }
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
        && word.contains('/')
    {
        return format!("{word:?} is not a command of lastuse; to run that program: lastuse run {word} ...\n");
    }
    let styled = error.render().ansi().to_string();
    // With what ends its style.
    let (_, rest) = styled.split_once("error:").unwrap_or(("", &styled));
    rest.trim_start_matches("\x1b[0m").trim_start().to_owned()
}

/// Parses a number that counts something, for an option.
pub fn at_least_one(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|&count| count > 0).ok_or_else(|| "not a whole number from 1 to 2^32 - 1".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Options {
        #[arg(long)]
        count: u64,
    }

    fn refused(arguments: &[&str]) -> String {
        let command = with_negative_numbers(Options::command());
        message(command.try_get_matches_from(arguments).expect_err("a wrong command line"))
    }

    #[derive(Parser)]
    enum Commands {
        Offload {
            #[arg(long)]
            device: String,
            #[arg(long)]
            json: bool,
            files: Vec<String>,
        },
    }

    #[test]
    fn programs_in_place_of_files_are_set_apart() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let apart = |text: &str| with_program_apart(&Commands::command(), words(text));
        for (given, expected) in [
            ("lastuse offload --device gpu=1 /bin/sh -c x", "lastuse offload --device gpu=1 -- /bin/sh -c x"),
            ("lastuse offload --json --device=gpu=1 sh -c x", "lastuse offload --json --device=gpu=1 -- sh -c x"),
            ("lastuse offload --device sh graphs --json", "lastuse offload --device sh graphs --json"),
            ("lastuse offload --device gpu=1 -- sh -c x", "lastuse offload --device gpu=1 -- sh -c x"),
            ("lastuse offload /tmp --device gpu=1", "lastuse offload /tmp --device gpu=1"),
            ("lastuse run sh -c x", "lastuse run sh -c x"),
        ] {
            assert_eq!(apart(given), words(expected));
        }
    }

    #[test]
    fn messages_name_what_is_wrong_without_a_prefix() {
        for value in ["x", "-1", "1e9", "99999999999999999999"] {
            let expected = format!("invalid value '{value}' for '--count <COUNT>': not a whole number");
            assert!(refused(&["tool", "--count", value]).starts_with(&expected));
        }
        let unknown = refused(&["tool", "--many"]);
        assert!(unknown.starts_with("unexpected argument") && !unknown.contains("tip:"), "{unknown}");
    }
}
