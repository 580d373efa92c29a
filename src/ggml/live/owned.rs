//! The live buffers that lastuse owns, and who wants to know of each buffer that it allocates.

use std::collections::BTreeMap;
use std::fmt;
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

/// What is called for each buffer that lastuse allocates. It does not allocate any itself.
pub trait BufferListener: Sync {
    /// Lastuse has allocated a buffer.
    fn allocated(&self, owned: &OwnedBuffer);
    /// Lastuse has set what ggml says that a buffer is used for.
    fn used(&self, buffer: &OwnedBuffer);
    /// Lastuse is about to free the buffer at this address.
    fn freed(&self, address: usize);
}

/// By address. Buffers that programs own are not among them.
static OWNED: Lock<BTreeMap<usize, OwnedBuffer>> = Lock::new(BTreeMap::new());

static LISTENER: OnceLock<&'static dyn BufferListener> = OnceLock::new();

/// Sets what is called from now on; only the first call has an effect.
pub fn listen(listener: &'static dyn BufferListener) {
    let _ = LISTENER.set(listener);
}

/// Calls `visit` for each buffer that lastuse owns. None of them is freed meanwhile.
pub fn for_each_owned(mut visit: impl FnMut(&OwnedBuffer)) {
    OWNED.lock().values().for_each(&mut visit);
}

/// Notes a new buffer.
pub fn note_allocated(new: OwnedBuffer) {
    OWNED.lock().insert(new.buffer.as_ptr().addr(), new);
    if let Some(listener) = LISTENER.get() {
        listener.allocated(&new);
    }
}

/// Notes that the usage of a buffer was set.
pub fn note_used(buffer: BufferRef) {
    let known = OWNED.lock().get(&buffer.as_ptr().addr()).copied();
    if let (Some(listener), Some(known)) = (LISTENER.get(), known) {
        listener.used(&known);
    }
}

/// Notes that a buffer is about to be freed.
pub fn note_freed(buffer: BufferRef) {
    note_given(buffer);
    if let Some(listener) = LISTENER.get() {
        listener.freed(buffer.as_ptr().addr());
    }
}

/// Notes that the program owns a buffer from now on.
pub fn note_given(buffer: BufferRef) {
    OWNED.lock().remove(&buffer.as_ptr().addr());
}

impl fmt::Debug for dyn BufferListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BufferListener")
    }
}
