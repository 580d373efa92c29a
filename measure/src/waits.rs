//! What a thread of a server waits for: whether, and after which time at most, it goes on by itself.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// Where a call has its timeout: the index of the argument, and what that is.
enum Timeout {
    /// A number of milliseconds; negative: none.
    Milliseconds(usize),
    /// The address of seconds and a fraction, and the nanoseconds of a unit of the fraction; a null address: none.
    Span(usize, u64),
    /// The address of a point in time on this clock, in seconds and nanoseconds; null: none.
    Deadline(usize, libc::clockid_t),
}

/// Calls in which a thread waits for another process to end or to answer.
const ANSWERS: [i64; 6] =
    [libc::SYS_wait4, libc::SYS_waitid, libc::SYS_read, libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_connect];

/// Calls with a timeout.
const TIMED: [(i64, Timeout); 6] = [
    (libc::SYS_nanosleep, Timeout::Span(0, 1)),
    (libc::SYS_ppoll, Timeout::Span(2, 1)),
    (libc::SYS_pselect6, Timeout::Span(4, 1)),
    (libc::SYS_epoll_pwait, Timeout::Milliseconds(3)),
    (libc::SYS_epoll_pwait2, Timeout::Span(3, 1)),
    (libc::SYS_rt_sigtimedwait, Timeout::Span(2, 1)),
];

/// Those that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: [(i64, Timeout); 3] = [
    (libc::SYS_poll, Timeout::Milliseconds(2)),
    (libc::SYS_epoll_wait, Timeout::Milliseconds(3)),
    (libc::SYS_select, Timeout::Span(4, 1000)),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: [(i64, Timeout); 0] = [];

/// Whether a thread goes on by itself.
#[derive(Debug)]
pub enum GoesOn {
    /// It does not: it waits for another thread, or for a request.
    Never,
    /// It does, after this time at most.
    Within(Duration),
    /// It may, at any time.
    Sometime,
}

impl GoesOn {
    /// Returns that of a thread of this process, given its folder below `/proc`.
    pub fn of_thread(folder: &Path) -> Self {
        // A thread that runs has a word there instead of a number, and one that has ended meanwhile has no file.
        let text = fs::read_to_string(folder.join("syscall")).unwrap_or_default();
        let mut words = text.split_whitespace();
        let Some(call) = words.next().and_then(|number| number.parse::<i64>().ok()) else { return Self::Never };
        if ANSWERS.contains(&call) {
            return Self::Sometime;
        }
        let number = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        let arguments: Vec<u64> = words.filter_map(number).collect();
        let timeout = match call {
            libc::SYS_futex => arguments.get(1).and_then(|&operation| futex_timeout(operation)),
            libc::SYS_clock_nanosleep => {
                arguments.first_chunk().and_then(|&[clock, flags]| sleep_timeout(clock, flags))
            }
            _ => TIMED.into_iter().chain(OLDER).find(|(timed, _)| *timed == call).map(|(_, timeout)| timeout),
        };
        timeout.and_then(|timeout| timeout.left(&arguments)).map_or(Self::Never, Self::Within)
    }
}

/// Returns where a call of `futex` for this operation has its timeout, if it waits.
fn futex_timeout(operation: u64) -> Option<Timeout> {
    let operation = i32::try_from(operation).ok()?;
    let is_real = operation & libc::FUTEX_CLOCK_REALTIME != 0;
    match operation & libc::FUTEX_CMD_MASK {
        libc::FUTEX_WAIT => Some(Timeout::Span(3, 1)),
        libc::FUTEX_WAIT_BITSET if is_real => Some(Timeout::Deadline(3, libc::CLOCK_REALTIME)),
        libc::FUTEX_WAIT_BITSET => Some(Timeout::Deadline(3, libc::CLOCK_MONOTONIC)),
        _ => None,
    }
}

/// Returns where a call of `clock_nanosleep` with this clock and these flags has its timeout.
fn sleep_timeout(clock: u64, flags: u64) -> Option<Timeout> {
    let is_deadline = flags & libc::TIMER_ABSTIME.unsigned_abs() as u64 != 0;
    if is_deadline { Some(Timeout::Deadline(2, clock.try_into().ok()?)) } else { Some(Timeout::Span(2, 1)) }
}

impl Timeout {
    /// Returns the time that is left: of a span all of it. `None` without a timeout.
    fn left(self, arguments: &[u64]) -> Option<Duration> {
        match self {
            Self::Milliseconds(at) => {
                // An `int`: the lower half of the argument.
                let milliseconds = i32::try_from(arguments.get(at)? & 0xffff_ffff).ok()?;
                u64::try_from(milliseconds).ok().map(Duration::from_millis)
            }
            Self::Span(at, unit) => time_at(*arguments.get(at)?, unit),
            Self::Deadline(at, clock) => {
                let deadline = time_at(*arguments.get(at)?, 1)?;
                Some(deadline.saturating_sub(time_on(clock)))
            }
        }
    }
}

/// Returns the time on a clock of the system.
pub fn time_on(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the time; a clock that is not there leaves it as it is.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

/// Returns the time at this address: seconds, and a fraction whose unit has `unit` nanoseconds. `None` if the address is null, or if
/// the memory is not there any more, as when the thread has gone on.
fn time_at(address: u64, unit: u64) -> Option<Duration> {
    let mut bytes = [0; 16];
    let memory = (address != 0).then(|| File::open("/proc/self/mem").ok()).flatten()?;
    memory.read_exact_at(&mut bytes, address).ok()?;
    let [seconds, fraction] = [0, 8].map(|at| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes")));
    Some(Duration::from_secs(seconds).saturating_add(Duration::from_nanos(fraction.saturating_mul(unit))))
}
