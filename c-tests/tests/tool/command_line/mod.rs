//! The command line as a whole: help, completions, man pages, which files are taken, and errors in a command.

mod completions;
mod files;
mod help;
mod programs;
mod wrong_usage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::tool::{self, command};
use lastuse_vendor::target_folder;

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the tool starts")
}

/// Exit code 0, no messages, and the output.
fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!((output.status.code(), tool::stderr(&output)), (Some(0), ""), "{arguments:?}");
    tool::stdout(&output).to_owned()
}

/// Asserts the exit code and the message, which follows "lastuse: error: ".
fn assert_refused(arguments: &[&str], code: i32, message: &str) {
    let output = run(arguments);
    let (found, text) = (output.status.code(), tool::stderr(&output));
    assert_eq!((found, text), (Some(code), format!("lastuse: error: {message}\n").as_str()), "{arguments:?}");
}

/// Returns an empty folder.
fn folder(test: &str) -> PathBuf {
    let folder = target_folder().join("c-tests/command-line").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    folder
}

fn write(file: &Path, bytes: &[u8]) -> String {
    fs::write(file, bytes).expect("the target folder can be written to");
    text(file).to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the target folder has a name in UTF-8")
}

/// The capture of a small graph.
fn graph() -> Vec<u8> {
    fs::read(lastuse_c_tests::folder().join("graphs/llama-8-flash.jsonl.gz")).expect("it is committed")
}
