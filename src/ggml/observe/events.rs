//! The event report: the actions of the allocators of a process, one JSON object per line of a file.
//!
//! Each line is one write to the end of the file. Threads and processes can share it, and a program that crashes leaves
//! whole lines.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Once, OnceLock};

use crate::formats::json::JsonObject;
use crate::placement::Bytes;

use crate::ggml::environment::path_in;
use crate::ggml::linking::functions::Functions;
use crate::ggml::log::log_message;
use crate::ggml::observe::dump::Dumped;
use crate::ggml::observe::statistics::Statistics;
use crate::ggml::version::{SIGNATURE, VERSION};
use crate::settings::{Key, Level};

/// An open event report.
#[derive(Debug)]
pub struct Events {
    functions: Functions,
    file: File,
    ggml: String,
    is_lastuse: bool,
    start: Once,
    /// Whether a write has failed; nothing is written after that.
    is_broken: AtomicBool,
}

/// A buffer after a plan.
#[derive(Debug)]
pub struct BufferEvent<'a> {
    /// The first buffer id that refers to it.
    pub id: usize,
    /// The name of its type.
    pub name: &'a str,
    /// Bytes held.
    pub bytes: Bytes,
    /// Sizes from plans; `None` if ggml's own allocator is in use.
    pub planned: Option<PlannedBufferSizes>,
}

/// Requirements of lastuse's plans for a buffer.
#[derive(Clone, Copy, Debug)]
pub struct PlannedBufferSizes {
    /// Bytes that the latest plan requires.
    pub plan_bytes: Bytes,
    /// The lower bound of the largest plan so far.
    pub lower_bound: Bytes,
    /// Bytes that ggml's own allocator would have needed for the graph of the largest plan.
    pub by_ggml: Option<Bytes>,
    /// Bytes of the largest plan, if the buffer is shared with other allocators.
    pub alone: Option<Bytes>,
}

impl Events {
    /// Opens the file that the environment names, if any; `log` is called with the reason if it cannot be opened.
    pub fn from_environment(functions: Functions, ggml: &str, is_lastuse: bool, log: impl Fn(&str)) -> Option<Self> {
        let path = path_in(Key::Report)?;
        let path = Path::new(&path);
        match OpenOptions::new().append(true).create(true).open(path) {
            Ok(file) => {
                let (start, is_broken) = (Once::new(), AtomicBool::new(false));
                Some(Self { functions, file, ggml: ggml.to_owned(), is_lastuse, start, is_broken })
            }
            Err(error) => {
                let name = Key::Report.variable().to_string_lossy();
                log(&format!("{name} has no effect: cannot write to {}: {error}", path.display()));
                None
            }
        }
    }

    /// The functions of the ggml whose allocators are reported.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Writes the event of the first allocator; later calls do nothing.
    pub fn write_start(&self) {
        self.start.call_once(|| {
            let server = if self.is_lastuse { "lastuse" } else { "ggml-alloc" };
            self.write("start", |event| {
                event.text("lastuse", VERSION).text("ggml", &self.ggml).text("server", server);
            });
        });
    }

    /// Writes that an allocator of lastuse has a new plan, or that the bytes held have changed. `graph` describes the
    /// backend of the graph that was planned last.
    pub fn write_plan<'b>(
        &self,
        statistics: &Statistics,
        [leafs, nodes]: [usize; 2],
        graph: &str,
        buffers: impl Iterator<Item = BufferEvent<'b>>,
    ) {
        self.write("plan", |event| {
            event
                .value("allocator", statistics.number)
                .value("leafs", leafs)
                .value("nodes", nodes)
                .text("graph", graph);
            event.value("plans", statistics.plans).value("plan_us", statistics.planning.as_micros());
            event.value("retained", statistics.retained);
            event.objects("buffers", buffers, write_buffer);
        });
    }

    /// Writes that a buffer of ggml's own allocator has changed.
    pub fn write_buffers<'b>(
        &self,
        allocator: u64,
        [leafs, nodes]: [Option<u64>; 2],
        buffers: impl Iterator<Item = BufferEvent<'b>>,
    ) {
        self.write("plan", |event| {
            event.value("allocator", allocator).maybe("leafs", leafs).maybe("nodes", nodes);
            event.maybe("plans", None).maybe("plan_us", None).objects("buffers", buffers, write_buffer);
        });
    }

    /// Writes that a graph has run while tensors are dumped to `folder`.
    pub fn write_dump(&self, folder: &str, dumped: &Dumped) {
        self.write("dump", |event| {
            event.text("folder", folder).maybe("run", dumped.run);
            event.value("written", dumped.written).value("failed", dumped.failed);
            event.texts("similar", dumped.similar.iter().map(String::as_str));
        });
    }

    /// Writes that an allocator was freed.
    pub fn write_free(&self, allocator: u64) {
        self.write("free", |event| _ = event.value("allocator", allocator));
    }

    /// Counts a graph whose addresses were verified. The number of all is written at the end of the process.
    pub fn count_verified(&'static self) {
        let verified = VERIFIED.get_or_init(|| {
            // SAFETY: a function of this library, which the C library calls before it unloads the library.
            unsafe { libc::atexit(write_verified) };
            VerifiedGraphs { events: self, process: std::process::id(), count: AtomicU64::new(0) }
        });
        verified.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes at the end of the process that lastuse has served none of its allocators, and why. Nothing can be told of a
    /// failure any more.
    pub fn write_not_served(why: &str) {
        let open = |path| OpenOptions::new().append(true).create(true).open(path).ok();
        let Some(file) = path_in(Key::Report).and_then(open) else { return };
        let _ = write_line(&file, "not served", |event| _ = event.text("why", why));
    }

    /// Writes what was found for a graph that is to fit `budget` bytes in buffers of one type, as the variable says. Nothing can be
    /// told of a failure: the log has the rest.
    pub fn write_budget(variable: &str, buffer: &str, [budget, before, after]: [Bytes; 3]) {
        let open = |path| OpenOptions::new().append(true).create(true).open(path).ok();
        let Some(file) = path_in(Key::Report).and_then(open) else { return };
        let _ = write_line(&file, "budget", |event| {
            event.text("setting", variable).text("buffer", buffer);
            event.value("budget", budget).value("before", before).value("after", after);
        });
    }

    fn write(&self, name: &str, fill: impl FnOnce(&mut JsonObject<'_>)) {
        if let Err(reason) = self.append(name, fill)
            && !self.is_broken.swap(true, Ordering::Relaxed)
        {
            let name = Key::Report.variable().to_string_lossy();
            let message = format!("{SIGNATURE}no more is written to the file that {name} names: {reason}\n");
            log_message(&self.functions, Level::Error, &message);
        }
    }

    /// Appends a line to the file, unless an earlier write has failed.
    fn append(&self, name: &str, fill: impl FnOnce(&mut JsonObject<'_>)) -> Result<(), String> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Ok(());
        }
        write_line(&self.file, name, fill)
    }
}

/// Appends the line of an event to a file.
fn write_line(mut file: &File, name: &str, fill: impl FnOnce(&mut JsonObject<'_>)) -> Result<(), String> {
    let mut line = String::new();
    let mut event = JsonObject::begin(&mut line);
    event.text("event", name).value("pid", std::process::id());
    fill(&mut event);
    event.end();
    line.push('\n');
    match file.write(line.as_bytes()) {
        Ok(written) if written == line.len() => Ok(()),
        Ok(_) => Err("there is no room for a whole line".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The verified graphs of a process.
#[derive(Debug)]
struct VerifiedGraphs {
    events: &'static Events,
    /// The process that counts: one that it forks writes nothing at its end.
    process: u32,
    count: AtomicU64,
}

static VERIFIED: OnceLock<VerifiedGraphs> = OnceLock::new();

/// Called by the C library at the end of the process. Nothing of ggml is used: its backends may be gone.
extern "C" fn write_verified() {
    if let Some(VerifiedGraphs { events, count, .. }) = VERIFIED.get().filter(|it| it.process == std::process::id()) {
        // Nothing can be told of a failure any more.
        let _ = events.append("verified", |event| _ = event.value("graphs", count.load(Ordering::Relaxed)));
    }
}

fn write_buffer(object: &mut JsonObject<'_>, buffer: BufferEvent<'_>) {
    object.value("id", buffer.id).text("name", buffer.name).value("bytes", buffer.bytes);
    if let Some(planned) = buffer.planned {
        object.value("plan_bytes", planned.plan_bytes).value("lower_bound", planned.lower_bound);
        object.maybe("ggml_alloc_bytes", planned.by_ggml);
        if planned.alone.is_some() {
            object.maybe("alone", planned.alone);
        }
    }
}
