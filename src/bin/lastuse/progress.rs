//! Progress on a terminal.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

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
