//! A running program, and the processes of it that outlive it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, ExitStatus};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};
use std::{fs, io};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use wait4::Wait4;

/// A running program, to which signals are forwarded.
pub struct Child {
    child: std::process::Child,
    start: Instant,
    signals: Handle,
    forwarder: JoinHandle<()>,
}

/// How a program exited.
pub struct Exit {
    pub status: ExitStatus,
    pub time: Duration,
    /// The peak resident memory of the program, or of a process that it waited for.
    pub peak_bytes: u64,
}

impl Child {
    /// Starts the program. Until it exits, SIGHUP and SIGTERM are forwarded to it, and SIGINT and SIGQUIT, which a terminal
    /// sends to both, are ignored: so its results can still be reported.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
        let handle = signals.handle();
        let start = Instant::now();
        let child = command.spawn()?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let forwarder = spawn(move || {
            for signal in signals.forever().filter(|&signal| matches!(signal, SIGHUP | SIGTERM)) {
                let signal = if signal == SIGHUP { Signal::SIGHUP } else { Signal::SIGTERM };
                // It may have exited.
                let _ = kill(pid, signal);
            }
        });
        Ok(Self { child, start, signals: handle, forwarder })
    }

    /// Waits until it exits.
    pub fn wait(self) -> io::Result<Exit> {
        let used = self.child.wait4();
        let time = self.start.elapsed();
        self.signals.close();
        // The thread returns nothing.
        let _ = self.forwarder.join();
        used.map(|used| Exit { status: used.status, time, peak_bytes: used.rusage.maxrss })
    }
}

/// Returns the numbers of the processes that have this variable in their environment: those that the program has started, and
/// that still run. None where the system does not list processes.
pub fn survivors(name: &str, value: &OsStr) -> Vec<u32> {
    let variable = [name.as_bytes(), b"=", value.as_bytes()].concat();
    let has_variable = |process: &u32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == variable)
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(has_variable).collect()
}
