//! The process of the browser, and messages to and from it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use lastuse_vendor::target_folder;
use serde_json::{Value, json};

use crate::Result;

/// The browser reads commands from descriptor 3 and writes responses to 4.
const THROUGH_PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>/dev/null"#;

const FLAGS: [&str; 10] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--no-first-run",
    "--no-default-browser-check",
];

/// How long the browser may take to exit.
const EXIT_LIMIT: Duration = Duration::from_secs(5);

/// A running browser; it is ended when this is dropped.
#[derive(Debug)]
pub struct Pipe {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    next: u64,
    /// Holds its profile and its log.
    folder: PathBuf,
}

impl Pipe {
    pub fn open(chromium: &Path) -> Result<Self> {
        let folder = own_folder()?;
        let failed = |error: std::io::Error| format!("{}: {error}", chromium.display());
        let mut command = Command::new("sh");
        command.args(["-c", THROUGH_PIPES]).arg(chromium).args(FLAGS);
        command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
        if super::install::is_root() {
            // The sandbox refuses to run as root.
            command.arg("--no-sandbox");
        }
        let log = File::create(folder.join("log")).map_err(failed)?;
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn();
        let mut child = spawned.map_err(failed)?;
        let (Some(commands), Some(responses)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the browser has no pipes".to_owned());
        };
        let (sender, messages) = channel();
        thread::spawn(move || forward(responses, &sender));
        Ok(Self { child, commands, messages, next: 1, folder })
    }

    /// Sends a command, to the browser itself if `session` is empty, and returns the id of its response.
    pub fn send(&mut self, method: &str, parameters: &Value, session: &str) -> Result<u64> {
        let id = self.next;
        self.next += 1;
        let mut command = json!({"id": id, "method": method, "params": parameters});
        if !session.is_empty() {
            command["sessionId"] = json!(session);
        }
        let text = format!("{command}\0");
        let sent = self.commands.write_all(text.as_bytes()).and_then(|()| self.commands.flush());
        sent.map(|()| id).map_err(|error| format!("{method}: {error}{}", self.log()))
    }

    pub fn receive(&self, patience: Duration) -> Result<Value> {
        self.messages.recv_timeout(patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("no response for {} s{}", patience.as_secs(), self.log()),
            RecvTimeoutError::Disconnected => format!("the browser has ended{}", self.log()),
        })
    }

    fn log(&self) -> String {
        let mut text = String::new();
        // The error is reported without the log if it cannot be read.
        let _ = File::open(self.folder.join("log")).and_then(|mut log| log.read_to_string(&mut text));
        format!("; its log:\n{text}")
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.send("Browser.close", &json!({}), "");
        let start = Instant::now();
        while start.elapsed() < EXIT_LIMIT && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn own_folder() -> Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = target_folder().join("c-tests/browser").join(format!("{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Splits and parses messages until the browser ends or the receiver is gone.
fn forward(responses: ChildStdout, messages: &Sender<Value>) {
    for message in BufReader::new(responses).split(0) {
        let parsed = message.ok().and_then(|text| serde_json::from_slice(&text).ok());
        if parsed.is_none_or(|value| messages.send(value).is_err()) {
            return;
        }
    }
}
