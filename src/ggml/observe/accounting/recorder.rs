//! Records all buffers of the process and the largest graph of each graph allocator, and writes a file at its end.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::accounting::{HeldBuffer, Ledger, Moment};
use crate::ggml::live::buffer_ref::{BufferListener, BufferRef, OwnedBuffer, for_each_owned, listen};
use crate::ggml::live::lock::Lock;
use crate::ggml::live::pages::resident;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::observe::whole_file::NotWritten;
use crate::ggml::version::SIGNATURE;
use crate::graph::Address;
use crate::placement::Bytes;
use crate::settings::Switch;

use super::describe::{DescribedBuffer, address, class, tensor, usage};
use super::destination::AccountingFile;
use super::graph::{FoundBuffers, GraphDraft, Place};

/// The recorder of a process. No function of ggml is called while its state is locked, so that any function may be called in
/// a callback.
#[derive(Debug)]
pub struct Recorder {
    /// Whether anything is recorded, which is checked at each plan.
    is_recording: AtomicBool,
    /// The process that records. One that it forks writes nothing, and takes no lock, which another thread may have held.
    process: AtomicU32,
    state: Lock<Option<Recording>>,
}

/// What is recorded.
#[derive(Clone, Debug)]
struct Recording {
    ledger: Ledger,
    /// Written at the end of the process, if there is one.
    file: Option<AccountingFile>,
    /// True once the buffers of the program itself are noted when they are allocated, and when they are freed.
    sees_program: bool,
    /// The version of the ggml that a buffer was of.
    ggml: String,
}

/// Nothing is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRecording;

impl fmt::Display for NotRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "nothing is recorded: set LASTUSE_ACCOUNTING, or call lastuse_set(\"accounting\", file) before the first buffer",
        )
    }
}

/// Returns the recorder of this process.
pub fn recorder() -> &'static Recorder {
    static OF_PROCESS: Recorder =
        Recorder { is_recording: AtomicBool::new(false), process: AtomicU32::new(0), state: Lock::new(None) };
    &OF_PROCESS
}

impl Recorder {
    /// Records from now on, and writes the file at this path at the end of the process; "on" records without a file. `None`
    /// ends that.
    ///
    /// # Errors
    /// [`NotWritten`]; nothing is changed then.
    pub fn set(&'static self, path: Option<&OsStr>) -> Result<(), NotWritten> {
        static AT_EXIT: Once = Once::new();
        let is_on = |path: &OsStr| path.to_str().is_some_and(|word| word.parse() == Ok(Switch::On));
        let recording = match path {
            None => None,
            Some(path) if is_on(path) => Some(Recording::new(None)),
            Some(path) => Some(Recording::new(Some(AccountingFile::new(Path::new(path))?))),
        };
        let is_recording = recording.is_some();
        *self.state.lock() = recording;
        self.process.store(std::process::id(), Ordering::Relaxed);
        self.is_recording.store(is_recording, Ordering::Release);
        if is_recording {
            // First, so that no buffer is missed; one that is noted twice is one, and none is freed before it is noted.
            listen(BufferListener {
                noted: |owned, is_new| recorder().note_owned(owned, is_new),
                freed: |address| _ = recorder().change(|recording| recording.ledger.remove(address as u64)),
            });
            for_each_owned(|owned| self.note_owned(owned, false));
            // SAFETY: a function of this library, which the C library calls before it unloads the library.
            AT_EXIT.call_once(|| _ = unsafe { libc::atexit(write_at_exit) });
        }
        Ok(())
    }

    /// Returns `true` if anything is recorded.
    pub fn is_recording(&self) -> bool {
        self.is_recording.load(Ordering::Relaxed)
    }

    /// Returns the accounting of a moment as JSON.
    ///
    /// # Errors
    /// [`NotRecording`].
    pub fn json(&'static self, moment: Moment) -> Result<String, NotRecording> {
        // Measuring and writing take long, and the program must not wait for it.
        let recording = self.change(|recording| recording.clone()).ok_or(NotRecording)?;
        Ok(recording.json(moment))
    }

    /// Notes a buffer that the program has allocated, asking for these bytes.
    ///
    /// # Errors
    /// [`NotRecording`].
    pub fn note_buffer(
        &'static self,
        runtime: &'static Runtime,
        buffer: BufferRef,
        asked: Bytes,
        is_mapped: bool,
    ) -> Result<(), NotRecording> {
        self.change(|recording| recording.sees_program = true).ok_or(NotRecording)?;
        if let Some(described) = DescribedBuffer::new(runtime, buffer, Some(asked), is_mapped) {
            self.add(runtime, described, |ledger, address, held| ledger.add(address, held, true));
        }
        Ok(())
    }

    /// Notes that the program is about to free a buffer.
    ///
    /// # Errors
    /// [`NotRecording`].
    pub fn note_freed(&'static self, runtime: &Runtime, buffer: BufferRef) -> Result<(), NotRecording> {
        if !self.is_recording() {
            return Err(NotRecording);
        }
        let (address, usage) = (address(buffer), usage(runtime, buffer));
        let freed = self.change(|recording| {
            recording.sees_program = true;
            recording.ledger.set_usage(address, usage);
            recording.ledger.remove(address);
        });
        freed.ok_or(NotRecording)
    }

    /// Notes the tensors of a context that were allocated.
    pub fn note_context(&'static self, runtime: &'static Runtime, tensors: &[TensorRef<'_>]) {
        let mut buffers = FoundBuffers::new(runtime);
        let owners = tensors.iter().filter(|tensor| tensor.view_source().is_none());
        let placed: Vec<_> = owners.filter_map(|&owner| Some((owner, buffers.place(owner, 0)?))).collect();
        buffers.described().for_each(|described| self.add(runtime, described, Ledger::add_found));
        for (owner, (address, offset)) in placed {
            let Some(buffer) = owner.buffer_ref() else { continue };
            let class = class(runtime, owner, owner.name().starts_with("cache_"));
            let described = tensor(runtime, owner, class, runtime.alloc_size_in(buffer, owner));
            self.change(|recording| recording.ledger.add_content(address, offset, described));
        }
    }

    /// Returns `true` if a plan of these bytes takes more of a buffer of an allocator than all of its plans so far.
    pub fn takes_graph(&'static self, allocator: u64, sizes: &[Bytes]) -> bool {
        self.change(|recording| recording.ledger.takes_graph(allocator, sizes)).unwrap_or(false)
    }

    /// Notes a graph of an allocator. `chunk` returns the address of a planned buffer.
    pub fn note_graph(&'static self, runtime: &'static Runtime, draft: GraphDraft, chunk: impl Fn(Address) -> u64) {
        let GraphDraft { sizes, mut graph, places, buffers } = draft;
        buffers.into_iter().for_each(|described| self.add(runtime, described, Ledger::add_found));
        self.change(|Recording { ledger, .. }| {
            for (tensor, place) in places {
                let (address, offset) = match place {
                    Place::Planned(at, within) => (chunk(at), at.offset + within),
                    Place::InBuffer(address, offset) => (address, offset),
                };
                ledger.locate(&mut graph.tensors[tensor], address, offset);
            }
            ledger.add_graph(sizes, graph);
        });
    }

    /// Notes that an allocator which shares memory has allocated a graph that needs these bytes.
    pub fn note_turn(&'static self, allocator: u64, bytes: Bytes) {
        self.change(|recording| recording.ledger.note_turn(allocator, bytes));
    }

    /// Notes that an allocator and its buffers were freed.
    pub fn note_allocator_freed(&'static self, allocator: u64) {
        self.change(|recording| recording.ledger.remove_allocator(allocator));
    }

    fn note_owned(&'static self, owned: &OwnedBuffer, is_new: bool) {
        let Some(sees_program) = self.change(|recording| recording.sees_program) else { return };
        // The guard may have noted it already.
        let is_new = is_new && !sees_program;
        if let Some(described) = DescribedBuffer::new(owned.runtime, owned.buffer, Some(owned.asked), false) {
            self.add(owned.runtime, described, |ledger, address, held| ledger.add(address, held, is_new));
        }
    }

    /// Adds a buffer by `add`, and notes the memory of its device if that holds more than ever before.
    fn add(
        &'static self,
        runtime: &'static Runtime,
        described: DescribedBuffer,
        add: impl FnOnce(&mut Ledger, u64, HeldBuffer) -> bool,
    ) {
        let DescribedBuffer { address, memory, device, mut held } = described;
        let is_largest = self.change(|Recording { ledger, ggml, .. }| {
            if ggml.is_empty() {
                runtime.version().clone_into(ggml);
            }
            held.device = ledger.device(memory.key(), &device);
            add(ledger, address, held)
        });
        if is_largest == Some(true) {
            let reported = memory.memory(runtime);
            self.change(|recording| recording.ledger.note_memory(memory.key(), reported));
        }
    }

    /// Changes what is recorded; `None` if nothing is.
    fn change<T>(&'static self, change: impl FnOnce(&mut Recording) -> T) -> Option<T> {
        if self.is_recording() { self.state.lock().as_mut().map(change) } else { None }
    }

    /// Writes the file, if this is the process that records.
    fn write(&'static self) -> Result<(), NotWritten> {
        if self.process.load(Ordering::Relaxed) != std::process::id() {
            return Ok(());
        }
        let written = self.change(|recording| match &recording.file {
            Some(file) => file.write(&(recording.json(Moment::Largest) + "\n")),
            None => Ok(()),
        });
        written.unwrap_or(Ok(()))
    }
}

impl Recording {
    fn new(file: Option<AccountingFile>) -> Self {
        let ledger = Ledger::measuring(|addresses| {
            let [start, end] = [addresses.start, addresses.end].map(usize::try_from);
            Some(resident(&(start.ok()?..end.ok()?))? as Bytes)
        });
        Self { ledger, file, sees_program: false, ggml: String::new() }
    }

    fn json(&self, moment: Moment) -> String {
        let mut accounting = self.ledger.accounting(moment);
        (accounting.process, accounting.ggml) = (std::process::id(), self.ggml.clone());
        accounting.json()
    }
}

/// Called by the C library at the end of the process. Nothing of ggml is used: its backends may be gone.
extern "C" fn write_at_exit() {
    if let Err(error) = recorder().write() {
        eprintln!("{SIGNATURE}no accounting is written: {error}");
    }
}
