//! Records all buffers of the process and the largest graph of each graph allocator, and writes a file at its end.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::owned::{BufferListener, OwnedBuffer, for_each_owned, listen};
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::version::SIGNATURE;
use crate::graph::Address;
use crate::offload::accounting::{Accounting, Location, Moment};
use crate::placement::Bytes;

use super::books::Books;
use super::describe::{DescribedBuffer, usage};
use super::destination::{AccountingFile, AccountingFileError};
use super::draft::{GraphDraft, content};

/// The recorder of a process. No function of ggml is called while its state is locked, so that any function may be called in
/// a callback.
#[derive(Debug)]
pub struct Recorder {
    /// Whether anything is recorded, which is checked at each plan.
    is_recording: AtomicBool,
    /// The process that records. One that it forks writes nothing, and takes no lock, which another thread may have held.
    process: AtomicU32,
    state: Mutex<Recording>,
}

#[derive(Debug, Default)]
struct Recording {
    books: Books,
    /// Written at the end of the process.
    file: Option<AccountingFile>,
    /// True once the buffers of the program itself are noted when they are allocated, and when they are freed.
    sees_program: bool,
    /// The version of the ggml that a buffer was of.
    ggml: String,
}

/// Why a buffer was not noted: nothing is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotNoted;

impl fmt::Display for NotNoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "nothing is recorded: set LASTUSE_ACCOUNTING, or call lastuse_set(\"accounting\", file) before the first buffer",
        )
    }
}

/// Returns the recorder of this process.
pub fn recorder() -> &'static Recorder {
    static OF_PROCESS: OnceLock<Recorder> = OnceLock::new();
    OF_PROCESS.get_or_init(|| Recorder {
        is_recording: AtomicBool::new(false),
        process: AtomicU32::new(0),
        state: Mutex::default(),
    })
}

impl Recorder {
    /// Records from now on, and writes the file at the end of the process; `None` ends that.
    ///
    /// # Errors
    /// [`AccountingFileError`]; nothing is changed then.
    pub fn set(&'static self, path: Option<&OsStr>) -> Result<(), AccountingFileError> {
        static AT_EXIT: Once = Once::new();
        let file = path.map(|path| AccountingFile::new(Path::new(path))).transpose()?;
        let is_recording = file.is_some();
        *self.state() = Recording { file, ..Recording::default() };
        self.process.store(std::process::id(), Ordering::Relaxed);
        self.is_recording.store(is_recording, Ordering::Release);
        if is_recording {
            // First, so that no buffer is missed; one that is noted twice is one, and none is freed before it is noted.
            listen(self);
            for_each_owned(|buffer| {
                if let Some((described, ggml)) = described(buffer) {
                    self.add(described, false, ggml);
                }
            });
            // SAFETY: a function of this library, which the C library calls before it unloads the library.
            AT_EXIT.call_once(|| _ = unsafe { libc::atexit(write_at_exit) });
        }
        Ok(())
    }

    /// Returns `true` if anything is recorded.
    pub fn is_recording(&self) -> bool {
        self.is_recording.load(Ordering::Relaxed)
    }

    /// Notes a buffer that the program has allocated, asking for these bytes.
    ///
    /// # Errors
    /// [`NotNoted`].
    pub fn note_buffer(
        &self,
        runtime: &'static Runtime,
        buffer: BufferRef,
        asked: Option<Bytes>,
        is_mapped: bool,
    ) -> Result<(), NotNoted> {
        if !self.is_recording() {
            return Err(NotNoted);
        }
        self.state().sees_program = true;
        if let Some(described) = DescribedBuffer::new(runtime, buffer, asked, is_mapped) {
            self.add(described, true, runtime);
        }
        Ok(())
    }

    /// Notes that the program is about to free a buffer.
    ///
    /// # Errors
    /// [`NotNoted`].
    pub fn note_freed(&self, runtime: &Runtime, buffer: BufferRef) -> Result<(), NotNoted> {
        if !self.is_recording() {
            return Err(NotNoted);
        }
        let (address, usage) = (buffer.as_ptr().addr() as u64, usage(runtime, buffer));
        let mut state = self.state();
        state.sees_program = true;
        state.books.ledger.set_usage(address, usage);
        state.books.ledger.remove(address);
        Ok(())
    }

    /// Notes the tensors of a context that were allocated.
    pub fn note_context(&self, runtime: &'static Runtime, tensors: &[TensorRef<'_>]) {
        for (described, mut tensor, offset) in tensors.iter().filter_map(|&tensor| content(runtime, tensor)) {
            let address = described.address;
            let mut state = self.state();
            let ledger = &mut state.books.ledger;
            if ledger.id(address).is_none() {
                drop(state);
                self.add(described, false, runtime);
                state = self.state();
            }
            let ledger = &mut state.books.ledger;
            tensor.location = ledger.id(address).map(|buffer| Location { buffer, offset });
            tensor.device = ledger.device_of(address);
            tensor.buffer_type = ledger.type_of(address);
            ledger.add_content(address, tensor);
        }
    }

    /// Returns `true` if a plan of these bytes is the largest of an allocator so far.
    pub fn takes_graph(&self, allocator: u64, bytes: Bytes) -> bool {
        self.is_recording() && self.state().books.ledger.takes_graph(allocator, bytes)
    }

    /// Notes the graph of an allocator, whose plan takes these bytes. `chunk` returns the address of a planned buffer.
    pub fn note_graph(&self, allocator: u64, bytes: Bytes, draft: GraphDraft, chunk: impl Fn(Address) -> Option<u64>) {
        let mut state = self.state();
        let mut graph = state.books.settle(draft, chunk);
        graph.allocator = Some(allocator);
        state.books.ledger.set_graph(allocator, bytes, graph);
    }

    /// Notes that an allocator and its buffers were freed.
    pub fn note_allocator_freed(&self, allocator: u64) {
        if self.is_recording() {
            self.state().books.ledger.remove_allocator(allocator);
        }
    }

    /// Returns a copy of the records if the buffers of the program itself are noted: then they cover all memory of the
    /// process.
    pub fn books(&self) -> Option<Books> {
        let state = self.state();
        (self.is_recording() && state.sees_program).then(|| state.books.clone())
    }

    fn add(&self, described: DescribedBuffer, is_new: bool, runtime: &'static Runtime) {
        let memory = described.memory;
        let is_largest = {
            let mut state = self.state();
            if state.ggml.is_empty() {
                runtime.version().clone_into(&mut state.ggml);
            }
            state.books.add(described, is_new)
        };
        if is_largest {
            let says = runtime.memory_of(memory);
            self.state().books.note_memory(memory, says);
        }
    }

    /// Writes the file, if this is the process that records.
    fn write(&self) -> Result<(), AccountingFileError> {
        if self.process.load(Ordering::Relaxed) != std::process::id() {
            return Ok(());
        }
        let state = self.state();
        let Some(file) = &state.file else { return Ok(()) };
        let of_largest = state.books.ledger.accounting(Moment::Largest);
        file.write(&Accounting { process: std::process::id(), ggml: state.ggml.clone(), ..of_largest })
    }

    fn state(&self) -> MutexGuard<'_, Recording> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn described(owned: &OwnedBuffer) -> Option<(DescribedBuffer, &'static Runtime)> {
    DescribedBuffer::new(owned.runtime, owned.buffer, Some(owned.asked), false)
        .map(|described| (described, owned.runtime))
}

impl BufferListener for Recorder {
    fn allocated(&self, owned: &OwnedBuffer) {
        if let (true, Some((described, runtime))) = (self.is_recording(), described(owned)) {
            // The guard may have noted it already.
            let is_new = !self.state().sees_program;
            self.add(described, is_new, runtime);
        }
    }

    fn used(&self, buffer: &OwnedBuffer) {
        if self.is_recording() {
            let (address, usage) = (buffer.buffer.as_ptr().addr() as u64, usage(buffer.runtime, buffer.buffer));
            self.state().books.ledger.set_usage(address, usage);
        }
    }

    fn freed(&self, address: usize) {
        if self.is_recording() {
            self.state().books.ledger.remove(address as u64);
        }
    }
}

/// Called by the C library at the end of the process. Nothing of ggml is used: its backends may be gone.
extern "C" fn write_at_exit() {
    if let Err(error) = recorder().write() {
        eprintln!("{SIGNATURE}no accounting is written: {error}");
    }
}
