//! A program while it runs.

use std::io;
use std::process::{Command, ExitStatus};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use wait4::Wait4;

/// A program that was started.
pub struct Child {
    child: std::process::Child,
    start: Instant,
    signals: Handle,
    forwarder: JoinHandle<()>,
}

/// What came of it.
pub struct Ended {
    pub status: ExitStatus,
    pub time: Duration,
    /// The most resident memory that it, or a process that it waited for, ever had.
    pub peak_bytes: u64,
}

impl Child {
    /// Starts it. From here until it has ended signals that ask to end go to the program, so that what it did can still be
    /// told: those of a terminal it gets anyway.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
        let handle = signals.handle();
        let start = Instant::now();
        let child = command.spawn()?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let forwarder = spawn(move || {
            for signal in signals.forever().filter(|&signal| matches!(signal, SIGHUP | SIGTERM)) {
                let signal = if signal == SIGHUP { Signal::SIGHUP } else { Signal::SIGTERM };
                // It may have ended by itself.
                let _ = kill(pid, signal);
            }
        });
        Ok(Self { child, start, signals: handle, forwarder })
    }

    /// Waits for it.
    pub fn wait(self) -> io::Result<Ended> {
        let used = self.child.wait4();
        let time = self.start.elapsed();
        self.signals.close();
        // It has nothing to answer.
        let _ = self.forwarder.join();
        used.map(|used| Ended { status: used.status, time, peak_bytes: used.rusage.maxrss })
    }
}
