//! References to live buffers, what ggml's public accessors report about them, and which of them lastuse owns.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::ggml::USAGE_NOT_KNOWN;
use crate::ggml::bindings::{ggml_backend_buffer, ggml_backend_buft_alloc_buffer};
use crate::placement::Bytes;

use super::lock::{Lock, this_thread};
use super::runtime::Runtime;
use super::tensor::TensorRef;

/// A live buffer. Equal references are the same buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferRef(NonNull<ggml_backend_buffer>);

// SAFETY: a reference is only an address. ggml's functions are called with it by the thread that uses the graph.
unsafe impl Send for BufferRef {}
// SAFETY: as above.
unsafe impl Sync for BufferRef {}

impl BufferRef {
    /// Returns `None` for null.
    ///
    /// # Safety
    /// `buffer` is null, or a buffer that outlives the value.
    pub unsafe fn new(buffer: *mut ggml_backend_buffer) -> Option<Self> {
        NonNull::new(buffer).map(Self)
    }

    /// # Safety
    /// `buffer` outlives the value.
    pub unsafe fn from_non_null(buffer: NonNull<ggml_backend_buffer>) -> Self {
        Self(buffer)
    }

    /// Returns the buffer as C's pointer.
    pub fn as_ptr(self) -> *mut ggml_backend_buffer {
        self.0.as_ptr()
    }
}

impl TensorRef<'_> {
    /// Returns the buffer that the tensor lies in, which lives as long as the tensor is used.
    pub fn buffer_ref(self) -> Option<BufferRef> {
        // SAFETY: the buffer of a live tensor is live.
        unsafe { BufferRef::new(self.buffer()) }
    }
}

impl Runtime {
    /// Returns the first address of a buffer, and its size in bytes.
    pub fn extent(&self, buffer: BufferRef) -> (*mut u8, Bytes) {
        // SAFETY: a live buffer.
        let base = unsafe { (self.functions.ggml_backend_buffer_get_base)(buffer.as_ptr()) };
        // SAFETY: a live buffer.
        let size = unsafe { (self.functions.ggml_backend_buffer_get_size)(buffer.as_ptr()) };
        (base.cast(), size as Bytes)
    }

    /// Returns the size of a buffer in bytes.
    pub fn size(&self, buffer: BufferRef) -> Bytes {
        // SAFETY: a live buffer.
        unsafe { (self.functions.ggml_backend_buffer_get_size)(buffer.as_ptr()) as Bytes }
    }

    /// Returns ggml's number for the usage of a buffer.
    pub fn usage(&self, buffer: BufferRef) -> u32 {
        // SAFETY: a live buffer.
        self.functions.ggml_backend_buffer_get_usage.map_or(USAGE_NOT_KNOWN, |usage| unsafe { usage(buffer.as_ptr()) })
    }

    /// Returns `true` if the processor can read and write the bytes of a buffer.
    pub fn is_host(&self, buffer: BufferRef) -> bool {
        // SAFETY: a live buffer.
        self.functions.ggml_backend_buffer_is_host.is_some_and(|is_host| unsafe { is_host(buffer.as_ptr()) })
    }

    /// Returns the bytes that `tensor` takes in a buffer, before padding.
    pub fn alloc_size_in(&self, buffer: BufferRef, tensor: TensorRef<'_>) -> Bytes {
        // SAFETY: a live buffer and a live tensor.
        unsafe { (self.functions.ggml_backend_buffer_get_alloc_size)(buffer.as_ptr(), tensor.as_ptr()) as Bytes }
    }
}

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
    visits: Vec<(usize, u64)>,
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

/// The function of the program that allocates buffers; null for ggml's.
static OWN_ALLOCATION: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Has buffers allocated by a function of the program; `None`: by ggml's.
///
/// # Safety
/// The function may be called by any thread as long as it is set, with a live buffer type and bytes, and returns null or a new
/// buffer of that type which `ggml_backend_buffer_free` frees.
pub unsafe fn allocate_by(allocate: Option<ggml_backend_buft_alloc_buffer>) {
    let address = allocate.map_or(null_mut(), |allocate| (allocate as *mut c_void).cast());
    OWN_ALLOCATION.store(address, Ordering::Release);
}

/// Returns the function of the program that allocates buffers, if there is one.
pub fn own_allocation() -> Option<ggml_backend_buft_alloc_buffer> {
    let address = OWN_ALLOCATION.load(Ordering::Acquire);
    // SAFETY: null becomes `None`; else it is a function that was set.
    unsafe { std::mem::transmute::<*mut c_void, Option<ggml_backend_buft_alloc_buffer>>(address) }
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
