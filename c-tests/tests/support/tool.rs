//! Runs the command-line tool.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use super::expect;

/// Returns the tool, built once per process.
pub fn file() -> &'static Path {
    static TOOL: OnceLock<PathBuf> = OnceLock::new();
    TOOL.get_or_init(|| {
        lastuse_c_tests::build_side_by_side();
        expect(lastuse_c_tests::tool())
    })
}

/// Returns the tool with arguments, without the variables of this process.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(file());
    lastuse_c_tests::clear_variables(&mut command);
    command.args(arguments);
    command
}

pub fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("the tool prints UTF-8")
}

pub fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("the tool prints UTF-8")
}

/// Asserts exit code 1 and the message.
pub fn assert_fails(output: &Output, message: &str) {
    assert_fails_with(1, output, message);
}

/// Asserts the exit code and the message.
pub fn assert_fails_with(code: i32, output: &Output, message: &str) {
    assert_eq!((output.status.code(), stderr(output)), (Some(code), format!("lastuse: error: {message}\n").as_str()));
}

/// Starts a command with pipes for its input and output.
pub fn spawn(mut command: Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the tool starts")
}

/// Writes `text` to the standard input of the tool and waits for its end.
pub fn finish(mut child: Child, text: &str) -> Output {
    let mut stdin = child.stdin.take().expect("the standard input is a pipe");
    stdin.write_all(text.as_bytes()).expect("the tool reads everything");
    drop(stdin);
    child.wait_with_output().expect("the tool ends")
}

/// The report that `lastuse run --json` prints after the program's own output.
pub fn report(output: &Output) -> serde_json::Value {
    let last = stdout(output).lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last}"))
}
