//! The end of a dry run, and what is written then: what the devices would hold, and why there is no more to be learnt.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, Builder};
use std::time::Duration;

use crate::compute::{begin_alike, graphs};
use crate::files::next;
use crate::waits::{GoesOn, time_on};
use crate::wrapped::{c_name, of_lastuse};
use crate::{MEASURE, is_active};

/// How a dry run ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// All buffers are known.
    Complete,
    /// What the program would do next is not known.
    Unknown,
}

/// The time between two looks at the threads of the program.
const INTERVAL: Duration = Duration::from_millis(100);
/// A program that does nothing for this long may wait for something that only it knows, and goes on then.
const MOST_IDLE: Duration = Duration::from_secs(30);
/// One that accepts connections, and has planned a graph, waits for a request. It may look for them once in a while, and is given
/// this time after that.
const LEAST_IDLE: Duration = Duration::from_millis(1500);
/// Processor time in an interval with which a program that polls does nothing.
const IDLE_TIME: Duration = Duration::from_millis(10);

/// How long to wait for lastuse, which the thread that ends may have called.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is to be said of buffers.
static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The most bytes that buffers have had.
static MOST_HELD: AtomicUsize = AtomicUsize::new(0);
/// How often the program has allocated a buffer, or computed a graph.
static ACTS: AtomicUsize = AtomicUsize::new(0);

/// The process that this library is in. One that shares its memory, as after vfork, has another number, and changes nothing.
static PROCESS: AtomicU32 = AtomicU32::new(0);

static HAS_ENDED: AtomicBool = AtomicBool::new(false);
static HAS_PLANNED: AtomicBool = AtomicBool::new(false);

/// Returns the folder of the dry run, in which its files are.
pub fn folder() -> &'static Path {
    // SAFETY: the name ends in NUL.
    let folder = unsafe { libc::getenv(MEASURE.as_ptr()) };
    // SAFETY: the value ends in NUL; it is set in a dry run, and stays.
    let folder = unsafe { CStr::from_ptr::<'static>(folder) };
    Path::new(OsStr::from_bytes(folder.to_bytes()))
}

/// Returns a file of this process there.
fn file(ending: &str) -> PathBuf {
    folder().join(format!("{}.{ending}", std::process::id()))
}

/// Ends the program, since there is nothing more to be learnt.
pub fn end(how: End, what: &str) -> ! {
    if HAS_ENDED.swap(true, Ordering::SeqCst) {
        loop {
            thread::sleep(PATIENCE);
        }
    }
    write_accounting();
    let kind = match how {
        End::Complete => "complete",
        End::Unknown => "unknown",
    };
    write_end(kind, what);
    // SAFETY: ends the process; the threads of the program must not go on.
    unsafe { _exit(0) }
}

/// Writes what the devices hold.
fn write_accounting() {
    let (sender, accounting) = channel();
    // This thread may hold a lock of lastuse.
    let asked = Builder::new().spawn(move || sender.send(accounting_json()));
    if let Some(json) = accounting.recv_timeout(PATIENCE).ok().flatten().filter(|_| asked.is_ok()) {
        write(&file("json"), &json);
    }
}

/// Returns what the devices hold, each when it held the most.
fn accounting_json() -> Option<String> {
    // SAFETY: its type in lastuse.h.
    let json: unsafe extern "C" fn(bool) -> *const c_char = unsafe { of_lastuse(c"lastuse_accounting_json") };
    // SAFETY: takes a flag.
    let json = unsafe { json(true) };
    // SAFETY: not null: a string that ends in NUL, which stays.
    (!json.is_null()).then(|| unsafe { CStr::from_ptr(json) }.to_string_lossy().into_owned() + "\n")
}

/// Writes how the dry run has ended, the number of graphs, why, and the notes, a line each.
fn write_end(kind: &str, why: &str) {
    let notes = NOTES.lock().unwrap_or_else(PoisonError::into_inner).join("\n");
    let why = why.replace('\n', " ");
    write(&file("end"), &format!("{kind}\n{}\n{why}\n{notes}\n", graphs()));
}

fn write(file: &Path, text: &str) {
    if let Err(error) = fs::write(file, text) {
        eprintln!("lastuse-measure: {}: {error}", file.display());
    }
}

/// Has the end of the program written, if that comes first; lastuse writes what the devices hold.
pub fn write_at_exit() {
    extern "C" fn exits() {
        if !HAS_ENDED.swap(true, Ordering::SeqCst) {
            write_end("exited", "the program has ended");
        }
    }
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    // SAFETY: a function of this library, which stays.
    unsafe { libc::atexit(exits) };
    // SAFETY: as above.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
}

/// Notes that a buffer was allocated, how many bytes all of them have now, and what is to be said of it.
pub fn note_buffer(held: usize, said: Option<String>) {
    NOTES.lock().unwrap_or_else(PoisonError::into_inner).extend(said);
    if MOST_HELD.fetch_max(held, Ordering::Relaxed) < held {
        begin_alike();
    }
    ACTS.fetch_add(1, Ordering::Relaxed);
    watch_threads();
}

/// Notes that a graph was planned.
pub fn watch() {
    HAS_PLANNED.store(true, Ordering::Relaxed);
    ACTS.fetch_add(1, Ordering::Relaxed);
    watch_threads();
}

/// Whether a thread of this process watches the others.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// Ends the dry run once the program waits for something to do, as a server does.
fn watch_threads() {
    if is_active() && !IS_WATCHED.swap(true, Ordering::Relaxed) {
        let _ = Builder::new().name("lastuse-measure".to_owned()).spawn(watch_on);
    }
}

/// Called in a process that the program has forked, which has one thread.
extern "C" fn forked() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    IS_WATCHED.store(false, Ordering::Relaxed);
    HAS_ENDED.store(false, Ordering::Relaxed);
    // Buffers that were allocated before the fork are those of the parent.
    MOST_HELD.store(0, Ordering::Relaxed);
}

fn watch_on() {
    let (mut idle, mut longest_wait) = (Duration::ZERO, Duration::ZERO);
    let mut last = (processor_time(), ACTS.load(Ordering::Relaxed));
    loop {
        thread::sleep(INTERVAL);
        let now = (processor_time(), ACTS.load(Ordering::Relaxed));
        let does_nothing = now.1 == last.1 && now.0.saturating_sub(last.0) <= IDLE_TIME;
        last = now;
        // Less is left of a wait with each look.
        (idle, longest_wait) = match wait_of_threads().filter(|_| does_nothing) {
            Some(wait) => (idle + INTERVAL, longest_wait.max(wait)),
            None => (Duration::ZERO, Duration::ZERO),
        };
        let waits_for_requests = || HAS_PLANNED.load(Ordering::Relaxed) && is_server() && !has_children();
        if idle >= MOST_IDLE || (idle >= LEAST_IDLE + longest_wait && waits_for_requests()) {
            end(End::Complete, "it waits for something to do");
        }
    }
}

/// Returns the processor time of all threads that this process has had, but for this one.
fn processor_time() -> Duration {
    time_on(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(time_on(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// Returns the time after which those of the other threads that go on by themselves have done so; `None` if one of them runs, is
/// about to, or waits for a disk.
fn wait_of_threads() -> Option<Duration> {
    // SAFETY: takes nothing.
    let own = unsafe { libc::gettid() };
    let mut longest = Duration::ZERO;
    for thread in fs::read_dir("/proc/self/task").ok()?.flatten() {
        if thread.file_name().to_str()?.parse() == Ok(own) {
            continue;
        }
        if matches!(state(&thread.path()), Some('R' | 'D')) {
            return None;
        }
        longest = longest.max(match GoesOn::of_thread(&thread.path()) {
            GoesOn::Never => Duration::ZERO,
            GoesOn::Within(time) => time.min(MOST_IDLE),
            GoesOn::Sometime => MOST_IDLE,
        });
    }
    Some(longest)
}

/// Returns the state of the thread or process with this folder below `/proc`; `None` if it has ended meanwhile.
fn state(folder: &Path) -> Option<char> {
    let text = fs::read_to_string(folder.join("stat")).ok()?;
    // The name, which may have any characters, is in parentheses.
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Whether the program accepts connections.
fn is_server() -> bool {
    let files = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    files.filter_map(|file| file.file_name().to_str()?.parse::<c_int>().ok()).any(|file| {
        let mut accepts: c_int = 0;
        let mut size: libc::socklen_t = 4;
        let to = (&raw mut accepts).cast();
        // SAFETY: writes to `accepts`, if the file is a socket.
        let status = unsafe { libc::getsockopt(file, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, to, &raw mut size) };
        status == 0 && accepts != 0
    })
}

/// Whether a process runs that the program has started, for which it may wait.
fn has_children() -> bool {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    children.into_iter().any(|children| {
        let mut states = children.split_whitespace().map(|child| state(&Path::new("/proc").join(child)));
        states.any(|state| state.is_some_and(|state| state != 'Z'))
    })
}

/// Ends the program as a function of the C library does, and writes what the devices hold before.
macro_rules! wrap_ends {
    ($($name:ident($($code:ident: $type:ty)?);)+) => {
        $(
            /// Wraps the C library's function.
            ///
            /// # Safety
            /// The requirements of that function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($code: $type)?) -> ! {
                static NEXT: OnceLock<usize> = OnceLock::new();
                const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
                let has_buffers = MOST_HELD.load(Ordering::Relaxed) > 0;
                let is_own = PROCESS.load(Ordering::Relaxed) == std::process::id();
                if has_buffers && is_own && !HAS_ENDED.swap(true, Ordering::SeqCst) {
                    write_accounting();
                    write_end("exited", "the program has ended");
                }
                // SAFETY: its type in stdlib.h or unistd.h.
                let next: unsafe extern "C" fn($($type)?) -> ! = unsafe { next(&NEXT, NAME) };
                // SAFETY: the caller's arguments, forwarded.
                unsafe { next($($code)?) }
            }
        )+
    };
}

wrap_ends! {
    _exit(code: c_int);
    _Exit(code: c_int);
    quick_exit(code: c_int);
    abort();
}
