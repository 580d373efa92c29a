//! A sign of life while work takes long.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

/// Work that takes less is not worth a sign.
const PATIENCE: Duration = Duration::from_secs(1);

/// Says on the standard error what goes on and for how long, when that is a terminal; ends when dropped.
pub struct Progress {
    running: Option<(Sender<&'static str>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts to wait. `file` is what is worked on, and is being read at first.
    pub fn start(file: &Path) -> Self {
        let (doing, done) = channel();
        let file = file.display().to_string();
        let tell = move || {
            let (start, mut doing, mut is_told) = (Instant::now(), "reading", false);
            let mut next = start + PATIENCE;
            loop {
                match done.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Ok(other) => doing = other,
                    Err(RecvTimeoutError::Timeout) => {
                        // A closed standard error cannot be reported.
                        let _ = write!(io::stderr(), "\r\x1b[K{file}: {doing}, {} s ", start.elapsed().as_secs());
                        (is_told, next) = (true, next + PATIENCE);
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            if is_told {
                // Back to the start of the line, and nothing in it.
                let _ = write!(io::stderr(), "\r\x1b[K");
            }
        };
        Self { running: io::stderr().is_terminal().then(|| (doing, spawn(tell))) }
    }

    /// Says what is done from now on.
    pub fn go_on(&self, doing: &'static str) {
        if let Some((teller, _)) = &self.running {
            // It waits for this until it is dropped.
            let _ = teller.send(doing);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, teller)) = self.running.take() {
            drop(end);
            // It has nothing to answer.
            let _ = teller.join();
        }
    }
}
