//! A running program, and the processes of it that outlive it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};
use std::{fs, io};

use lastuse::accounting::BytesAt;
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
    watch: Option<Watch>,
}

/// A thread that samples the resident memory of a program, until the other end of its channel is dropped.
struct Watch {
    end: Sender<()>,
    sampler: JoinHandle<Vec<BytesAt>>,
}

/// The time between two samples.
const INTERVAL: Duration = Duration::from_millis(10);

/// How a program exited.
pub struct Exit {
    pub status: ExitStatus,
    pub time: Duration,
    /// The peak resident memory of the program, or of a process that it waited for.
    pub peak_bytes: u64,
    /// Its resident memory over time, if it was watched.
    pub resident: Vec<BytesAt>,
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
        Ok(Self { child, start, signals: handle, forwarder, watch: None })
    }

    /// Returns its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Samples its resident memory from now on.
    pub fn watch(&mut self) {
        let (pid, start, (end, ended)) = (self.child.id(), self.start, channel());
        let sampler = spawn(move || {
            let mut samples = Vec::new();
            while let Some(bytes) = resident(pid) {
                let ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
                BytesAt { ms, bytes }.add_to(&mut samples);
                if ended.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            samples
        });
        self.watch = Some(Watch { end, sampler });
    }

    /// Waits until it exits.
    pub fn wait(mut self) -> io::Result<Exit> {
        let used = self.child.wait4();
        let time = self.start.elapsed();
        self.signals.close();
        // The thread returns nothing.
        let _ = self.forwarder.join();
        let sampled = self.watch.map(|Watch { end, sampler }| {
            drop(end);
            sampler.join().unwrap_or_default()
        });
        let resident = sampled.unwrap_or_default();
        used.map(|used| Exit { status: used.status, time, peak_bytes: used.rusage.maxrss, resident })
    }
}

/// Returns the resident bytes of a process; `None` once it has ended, and where the system does not say.
fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let size = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(size.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
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
