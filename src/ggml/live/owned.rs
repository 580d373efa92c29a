//! The live buffers that lastuse owns, and who wants to know of each buffer that it allocates.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::placement::Bytes;

use super::buffer_ref::BufferRef;
use super::lock::Lock;
use super::runtime::Runtime;

/// A live buffer that lastuse owns.
#[derive(Clone, Copy, Debug)]
pub struct OwnedBuffer {
    /// The ggml that it belongs to.
    pub runtime: &'static Runtime,
    /// The buffer.
    pub buffer: BufferRef,
    /// Bytes that its type was asked for.
    pub asked: Bytes,
}

/// The callbacks for each buffer that lastuse allocates. They do not allocate any themselves.
#[derive(Clone, Copy, Debug)]
pub struct BufferListener {
    /// Lastuse has allocated a buffer, or, where the second argument is false, has set what ggml says that it is used for.
    pub noted: fn(&OwnedBuffer, bool),
    /// Lastuse is about to free the buffer at this address.
    pub freed: fn(usize),
}

/// The buffers, and which of them are visited.
#[derive(Debug)]
struct Owned {
    /// By address. Buffers that programs own are not among them.
    buffers: BTreeMap<usize, OwnedBuffer>,
    /// The addresses of the buffers that threads look at now.
    visits: Vec<(usize, libc::pthread_t)>,
}

static OWNED: Lock<Owned> = Lock::new(Owned { buffers: BTreeMap::new(), visits: Vec::new() });

static LISTENER: OnceLock<BufferListener> = OnceLock::new();

/// Sets the callbacks; only the first call has an effect.
pub fn listen(listener: BufferListener) {
    let _ = LISTENER.set(listener);
}

/// Calls `visit` for each buffer that lastuse owns. No other thread frees the buffer that is visited. Nothing is locked
/// meanwhile, so `visit` may call functions of ggml, which may call the program.
pub fn for_each_owned(mut visit: impl FnMut(&OwnedBuffer)) {
    let mut start = 0;
    while let Some(visited) = Visit::begin(start) {
        visit(&visited.buffer);
        start = visited.address() + 1;
    }
}

/// A buffer that no other thread frees as long as this value exists.
struct Visit {
    buffer: OwnedBuffer,
}

impl Visit {
    /// Begins to visit the first buffer at `start` or above.
    fn begin(start: usize) -> Option<Self> {
        let mut owned = OWNED.lock();
        let (&address, &buffer) = owned.buffers.range(start..).next()?;
        owned.visits.push((address, this_thread()));
        Some(Self { buffer })
    }

    fn address(&self) -> usize {
        self.buffer.buffer.as_ptr().addr()
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let (this, mut owned) = ((self.address(), this_thread()), OWNED.lock());
        if let Some(at) = owned.visits.iter().position(|visit| *visit == this) {
            owned.visits.swap_remove(at);
        }
    }
}

fn this_thread() -> libc::pthread_t {
    // SAFETY: takes nothing.
    unsafe { libc::pthread_self() }
}

/// Notes a new buffer.
pub fn note_allocated(new: OwnedBuffer) {
    OWNED.lock().buffers.insert(new.buffer.as_ptr().addr(), new);
    if let Some(listener) = LISTENER.get() {
        (listener.noted)(&new, true);
    }
}

/// Notes that the usage of a buffer was set.
pub fn note_used(buffer: BufferRef) {
    let known = OWNED.lock().buffers.get(&buffer.as_ptr().addr()).copied();
    if let (Some(listener), Some(known)) = (LISTENER.get(), known) {
        (listener.noted)(&known, false);
    }
}

/// Notes that a buffer is about to be freed.
pub fn note_freed(buffer: BufferRef) {
    note_given(buffer);
    if let Some(listener) = LISTENER.get() {
        (listener.freed)(buffer.as_ptr().addr());
    }
}

/// Notes that the program owns a buffer from now on. Waits until no other thread visits it.
pub fn note_given(buffer: BufferRef) {
    let address = buffer.as_ptr().addr();
    OWNED.lock().buffers.remove(&address);
    let is_visited = || OWNED.lock().visits.iter().any(|&(at, thread)| at == address && thread != this_thread());
    while is_visited() {
        std::thread::yield_now();
    }
}
