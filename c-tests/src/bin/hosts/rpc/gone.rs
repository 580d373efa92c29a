//! A server that goes away while a program computes.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use lastuse_c_tests::{Program, Result};

use super::Host;
use crate::job::{Job, Launch, OUTPUT};
use crate::llama::{MODELS, USES};

/// How long the program may take to notice, or to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the description of a program begins that does not end.
const HUNG: &str = "it hung";

/// The message of ggml in that case.
const MESSAGE: &str = "RPC server crashed";

/// Kills a server while each allocator is in use, and returns a line that says how the program ended.
///
/// # Errors
/// When it cannot be tried.
pub fn test(host: &Host, wrong: &mut Vec<String>) -> Result<String> {
    let job = host.job(&MODELS[0], USES[0])?;
    eprintln!("[rpc] a server goes away");
    let [without, with] = [end(host, &job, &job.without)?, end(host, &job, &job.with)?];
    if with.starts_with(HUNG) {
        wrong.push(format!("a server went away: {with}"));
    }
    if without != with {
        wrong.push(format!("a server went away: {with}; without lastuse: {without}"));
    }
    if !with.contains(MESSAGE) {
        wrong.push(format!("a server went away, and the program did not say so: {with}"));
    }
    Ok(format!("A server that is killed in the middle: {with}.\n"))
}

/// Returns how the program ended after its second server was killed.
fn end(host: &Host, job: &Job, launch: &Launch) -> Result<String> {
    let mut servers = host.start()?;
    let (output, log) = (host.folder().join("output"), host.folder().join("gone.log"));
    let _ = fs::remove_file(&output);
    let failed = |error: std::io::Error| format!("{}: {error}", log.display());
    let arguments: Vec<String> =
        job.arguments.iter().map(|argument| argument.replace(OUTPUT, &output.to_string_lossy())).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(["--repeat", "1000000"]).collect();
    let variables: Vec<_> = launch.variables.iter().map(|(name, value)| (*name, value.as_os_str())).collect();
    let mut command = Program::existing(&launch.program).command(&arguments, &variables);
    command.stderr(File::create(&log).map_err(failed)?);
    let mut child = command.spawn().map_err(failed)?;
    let computes = || fs::metadata(&output).is_ok_and(|file| file.len() > 0);
    let begun = wait(|| computes().then_some(()));
    if begun.is_some() {
        servers.kill_last()?;
    }
    let status = wait(|| child.try_wait().ok().flatten());
    let _ = child.kill();
    let _ = child.wait();
    let _ = fs::remove_file(&output);
    let text = fs::read(&log).map_err(failed)?;
    let text = String::from_utf8_lossy(&text);
    if begun.is_none() {
        return Err(format!("the program did not begin in {} s:\n{text}", PATIENCE.as_secs()));
    }
    Ok(describe(status, &text))
}

fn describe(status: Option<ExitStatus>, text: &str) -> String {
    let said = text.lines().find(|line| line.contains(MESSAGE)).unwrap_or("no message");
    // Without the line of the source, which has a path.
    let said = said.rsplit_once(": ").map_or(said, |(_, message)| message);
    match status {
        None => format!("{HUNG} for {} s, {said:?}", PATIENCE.as_secs()),
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}, {said:?}"),
            (None, signal) => format!("signal {}, {said:?}", signal.unwrap_or(0)),
        },
    }
}

/// Asks until there is an answer, but not too long.
fn wait<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        match ask() {
            None if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_described_without_paths() {
        let text = "x\n/a/b.cpp:12: Remote RPC server crashed or returned malformed response\n";
        let message = "\"Remote RPC server crashed or returned malformed response\"";
        assert_eq!(describe(Some(ExitStatus::from_raw(6)), text), format!("signal 6, {message}"));
        assert_eq!(describe(Some(ExitStatus::from_raw(256)), ""), "exit code 1, \"no message\"");
        assert!(describe(None, text).starts_with(HUNG));
    }
}
