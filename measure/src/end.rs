//! The end of a dry run, and what is written then: what the devices would hold, and why there is no more to be learnt.

use std::ffi::{CStr, OsStr, c_char};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, Once, PoisonError};
use std::thread::{self, Builder};
use std::time::Duration;

use crate::compute::{begin_alike, graphs};
use crate::wrapped::of_lastuse;
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
/// A program that does nothing for so many of them waits for a request; before it has planned a graph, for so many.
const MOST_IDLE: u32 = 10;
const MOST_IDLE_BEFORE: u32 = 100;

/// How long to wait for lastuse, which the thread that ends may have called.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is to be said of buffers.
static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

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
    let (sender, accounting) = channel();
    // This thread may hold a lock of lastuse.
    let asked = Builder::new().spawn(move || sender.send(accounting_json()));
    let accounting = accounting.recv_timeout(PATIENCE).ok().flatten().filter(|_| asked.is_ok());
    if let Some(json) = accounting {
        write(&file("json"), &json);
    }
    let kind = match how {
        End::Complete => "complete",
        End::Unknown => "unknown",
    };
    write_end(kind, what);
    // SAFETY: ends the process; the threads of the program must not go on.
    unsafe { libc::_exit(0) }
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
    // SAFETY: a function of this library, which stays.
    unsafe { libc::atexit(exits) };
}

/// Notes that a buffer was allocated, and what is to be said of it.
pub fn note_buffer(said: Option<String>) {
    NOTES.lock().unwrap_or_else(PoisonError::into_inner).extend(said);
    begin_alike();
    watch_threads();
}

/// Notes that a graph was planned.
pub fn watch() {
    HAS_PLANNED.store(true, Ordering::Relaxed);
    watch_threads();
}

/// Ends the dry run once the program waits for something to do, as a server does.
fn watch_threads() {
    static WATCHED: Once = Once::new();
    if is_active() {
        WATCHED.call_once(|| _ = Builder::new().name("lastuse-measure".to_owned()).spawn(watch_on));
    }
}

fn watch_on() {
    // SAFETY: takes nothing.
    let own = unsafe { libc::gettid() };
    let (mut last, mut idle) = (None, 0);
    loop {
        thread::sleep(INTERVAL);
        let now = time_if_asleep(own);
        idle = if now.is_some() && now == last { idle + 1 } else { 0 };
        last = now;
        let most = if HAS_PLANNED.load(Ordering::Relaxed) { MOST_IDLE } else { MOST_IDLE_BEFORE };
        if idle >= most {
            end(End::Complete, "it waits for something to do");
        }
    }
}

/// Returns the processor time of the threads of the program, if all of them sleep.
fn time_if_asleep(own: i32) -> Option<u64> {
    let mut time = 0;
    for entry in fs::read_dir("/proc/self/task").ok()?.flatten() {
        if entry.file_name().to_str()?.parse() == Ok(own) {
            continue;
        }
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name, which may have any characters, is in parentheses.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let [state, user, system] = [0, 11, 12].map(|at| fields.get(at).copied().unwrap_or_default());
        if state != "S" {
            return None;
        }
        time += user.parse::<u64>().ok()? + system.parse::<u64>().ok()?;
    }
    Some(time)
}
