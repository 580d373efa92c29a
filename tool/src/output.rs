//! The standard output and error, progress on a terminal, and output files, whose names select the format.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};
use std::{fs, io};

use crate::foreign::unwritable;

/// Prints to the standard output. A closed pipe (`| head`) is not a failure.
pub fn print(text: &[u8]) -> Result<(), String> {
    print_to(&mut io::stdout(), text)
}

/// Prints text with tables, whose titles are bold where the standard output is a terminal and `NO_COLOR` is not set.
pub fn print_tables(text: &str) -> Result<(), String> {
    print_to(&mut anstream::stdout(), text.as_bytes())
}

fn print_to(to: &mut impl Write, text: &[u8]) -> Result<(), String> {
    match to.write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot print: {error}")),
        _ => Ok(()),
    }
}

/// Prints an error to the standard error. Unlike `eprintln` it does not panic when that is closed.
pub fn print_error(message: &str) {
    print_styled_error(&format!("{message}\n"));
}

/// Prints an error, with its last end of line and in colour, which is removed where the standard error is no terminal or `NO_COLOR`
/// is set.
pub fn print_styled_error(message: &str) {
    let _ = write!(anstream::stderr(), "lastuse: \x1b[1m\x1b[31merror:\x1b[0m {message}");
}

/// Prints a report to the standard error, in colour as [`print_styled_error`] does.
pub fn print_report(text: &str) {
    let _ = write!(anstream::stderr(), "{text}");
}

/// Makes the first line of a table, its titles, bold.
pub fn titled(table: &str) -> String {
    match table.split_once('\n') {
        Some((titles, rows)) => format!("\x1b[1m{titles}\x1b[0m\n{rows}"),
        None => table.to_owned(),
    }
}

/// Returns a number of things: "1 graph", "2 graphs".
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Returns the last lines of what a program has printed.
pub fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

/// Prints a message that tells of no error to the standard error.
pub fn print_notice(message: &str) {
    let _ = writeln!(io::stderr(), "lastuse: {message}");
}

/// A file that is known to be writable, or the standard output. A file keeps its content until it is written.
pub enum Output {
    Standard,
    File { file: File, path: PathBuf, is_new: bool },
}

impl Output {
    /// Opens a file for writing; "-" is the standard output.
    pub fn open(path: &Path) -> Result<Self, String> {
        if path == Path::new("-") {
            return Ok(Self::Standard);
        }
        let is_new = !path.exists();
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let failed = |error| format!("{}: cannot be written: {}", path.display(), unwritable(path, &error));
        let file = opened.map_err(failed)?;
        Ok(Self::File { file, path: path.to_owned(), is_new })
    }

    /// Replaces the content of the file.
    pub fn write(self, bytes: &[u8]) -> Result<(), String> {
        match self {
            Self::Standard => print(bytes),
            Self::File { mut file, path, .. } => {
                // A device has no length to set.
                let is_regular = file.metadata().is_ok_and(|data| data.is_file());
                let emptied = if is_regular { file.set_len(0) } else { Ok(()) };
                let written = emptied.and_then(|()| file.write_all(bytes));
                written.map_err(|error| format!("{}: cannot be written: {error}", path.display()))
            }
        }
    }

    /// Removes the file if opening it has created it.
    pub fn discard(self) {
        if let Self::File { path, is_new: true, .. } = self {
            // An empty file that stays is not worth a second message.
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns the format of a file by the ending of its name, in any case.
///
/// # Errors
/// Its name has none of the endings; the message lists them.
pub fn by_ending<T: Copy>(file: &Path, endings: &[(&str, T)]) -> Result<T, String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let found = endings.iter().find(|(ending, _)| name.ends_with(ending));
    found.map(|&(_, kind)| kind).ok_or_else(|| {
        let known: Vec<&str> = endings.iter().map(|&(ending, _)| ending).collect();
        match known.as_slice() {
            [only] => format!("{:?} does not end in {only}: rename the output", file.display()),
            [one, other] => format!("{:?} ends neither in {one} nor in {other}: rename the output", file.display()),
            _ => format!("{:?} ends in none of {}: rename the output", file.display(), known.join(", ")),
        }
    })
}

/// Returns whether a name is that of the standard output ("-"), or of a device or a pipe, whose names say nothing.
pub fn is_stream(file: &Path) -> bool {
    file.as_os_str() == OsStr::new("-") || file.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir())
}

/// Progress is shown for work that takes longer, and as often.
const INTERVAL: Duration = Duration::from_secs(1);

/// Shows on the standard error, if that is a terminal, the current activity and its duration. Ends when dropped.
pub struct Progress {
    running: Option<(Sender<&'static str>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts with reading `file`.
    pub fn start(file: &Path) -> Self {
        let (activity, activities) = channel();
        let file = file.display().to_string();
        let show = move || {
            let (start, mut activity, mut is_shown) = (Instant::now(), "reading", false);
            let mut next = start + INTERVAL;
            loop {
                match activities.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Ok(other) => activity = other,
                    Err(RecvTimeoutError::Timeout) => {
                        // A closed standard error cannot be reported.
                        let _ = write!(io::stderr(), "\r\x1b[K{file}: {activity}, {} s ", start.elapsed().as_secs());
                        (is_shown, next) = (true, next + INTERVAL);
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            if is_shown {
                // Clears the line.
                let _ = write!(io::stderr(), "\r\x1b[K");
            }
        };
        Self { running: io::stderr().is_terminal().then(|| (activity, spawn(show))) }
    }

    /// Sets the current activity.
    pub fn set(&self, activity: &'static str) {
        if let Some((sender, _)) = &self.running {
            // The thread receives until this is dropped.
            let _ = sender.send(activity);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.running.take() {
            drop(sender);
            // The thread returns nothing.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_choose_in_any_case() {
        let endings = [(".jsonl", 1), (".jsonl.gz", 2), (".csv", 3)];
        let chosen = ["a.jsonl", "graphs/B.JSONL.GZ", "c.d.csv"].map(|name| by_ending(Path::new(name), &endings));
        assert_eq!(chosen, [Ok(1), Ok(2), Ok(3)]);
    }

    #[test]
    fn other_endings_are_refused_with_the_list() {
        let refused = |endings: &[(&str, ())]| by_ending(Path::new("x.png"), endings).expect_err("unknown");
        assert_eq!(refused(&[(".csv", ())]), "\"x.png\" does not end in .csv: rename the output");
        let two = refused(&[(".json", ()), (".txt", ())]);
        assert_eq!(two, "\"x.png\" ends neither in .json nor in .txt: rename the output");
        let three = refused(&[(".a", ()), (".b", ()), (".c", ())]);
        assert_eq!(three, "\"x.png\" ends in none of .a, .b, .c: rename the output");
        assert!(by_ending(Path::new("csv"), &[(".csv", ())]).is_err());
    }

    #[test]
    fn devices_have_no_endings() {
        assert!(is_stream(Path::new("-")) && is_stream(Path::new("/dev/null")));
        assert!(!is_stream(Path::new("/")) && !is_stream(Path::new("no such file")));
    }
}
