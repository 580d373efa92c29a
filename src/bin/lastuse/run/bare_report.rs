//! `--report` without a file, right before a program that no "--" separates.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, Args, Command};

use crate::run::Arguments;
use crate::run::accounting::names_report;

/// The option whose file may be left out.
const REPORT: &str = "--report";

/// Inserts "--" between `--report` and the program of `lastuse run --report PROGRAM`, which would be taken for the file of the
/// report. A word behind `--report` is a file if its ending is that of a report, or if "--" follows it.
pub fn separated(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = arguments.into_iter().collect();
    if words.get(1).is_none_or(|command| command != "run") {
        return words;
    }
    let options = Arguments::augment_args(Command::new("run"));
    let mut at = 2;
    while words.get(at).is_some_and(|word| is_option(word)) {
        if words[at] == REPORT {
            let (file, next) = (words.get(at + 1), words.get(at + 2));
            match file {
                Some(file) if names_report(Path::new(file)) || next.is_some_and(|next| next == "--") => at += 2,
                Some(program) if !is_option(program) && program != "--" => {
                    words.insert(at + 1, OsString::from("--"));
                    return words;
                }
                _ => at += 1,
            }
        } else {
            at += 1 + usize::from(takes_next_word(&options, &words[at]));
        }
    }
    words
}

fn is_option(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-") && word != "-" && word != "--"
}

/// Returns whether the value of an option is the word behind it.
fn takes_next_word(options: &Command, word: &OsStr) -> bool {
    let Some(word) = word.to_str() else { return false };
    let takes_value = |option: &Arg| {
        option.get_action().takes_values() && !option.is_require_equals_set() && option.get_id() != "report"
    };
    if let Some(name) = word.strip_prefix("--") {
        return options.get_arguments().any(|option| option.get_long() == Some(name) && takes_value(option));
    }
    let has_value = |letter: char| options.get_arguments().any(|it| it.get_short() == Some(letter) && takes_value(it));
    // The characters after a letter with a value are the value.
    word.chars().skip(1).position(has_value).is_some_and(|at| at + 2 == word.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words after "lastuse run".
    fn of(line: &str) -> String {
        let words = ["lastuse", "run"].into_iter().chain(line.split_whitespace());
        let separated = separated(words.map(OsString::from));
        let words: Vec<&str> = separated[2..].iter().map(|word| word.to_str().expect("UTF-8")).collect();
        words.join(" ")
    }

    #[test]
    fn program_behind_report_is_no_file() {
        assert_eq!(of("--report ./llama-cli -m x"), "--report -- ./llama-cli -m x");
        assert_eq!(of("--json -o x.json --rules all --report prog"), "--json -o x.json --rules all --report -- prog");
        assert_eq!(of("-vo report --report prog"), "-vo report --report -- prog");
    }

    #[test]
    fn everything_else_stays() {
        for line in [
            "--report memory.html ./prog",
            "--report tensors.JSON ./prog --report x",
            "--report unknown.xyz -- ./prog",
            "--report -- ./prog",
            "--report --json ./prog",
            "--report=x ./prog --report y",
            "./prog --report x",
            "--rules --report ./prog",
            "--report",
            "",
        ] {
            assert_eq!(of(line), line);
        }
        let other = ["lastuse", "plan", "--report", "x"].map(OsString::from);
        assert_eq!(separated(other.clone()), other);
    }
}
