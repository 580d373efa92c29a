//! A sign of life while work takes long.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

/// Work that takes less is not worth a sign.
const PATIENCE: Duration = Duration::from_secs(1);

/// Says on the standard error what goes on and for how long, when that is a terminal; ends when dropped.
pub struct Progress {
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts to wait.
    pub fn start(what: String) -> Self {
        let (end, ended) = channel();
        let tell = move || {
            let start = Instant::now();
            while ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                // There is nobody to tell when standard error is closed.
                let _ = write!(io::stderr(), "\r{what}, {} s ", start.elapsed().as_secs());
            }
            if start.elapsed() >= PATIENCE {
                // Back to the start of the line, and nothing in it.
                let _ = write!(io::stderr(), "\r\x1b[K");
            }
        };
        Self { running: io::stderr().is_terminal().then(|| (end, spawn(tell))) }
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
