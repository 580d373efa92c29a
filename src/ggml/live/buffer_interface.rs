//! The functions through which ggml uses a buffer: a table at the beginning of each buffer, whose length depends on the version.
//!
//! Where a function is, is found once for each ggml: in a small buffer of the CPU, the word behind the table is the buffer type,
//! and a function is at a place of the table if ggml calls what was written to that place.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::ggml::bindings::{ggml_backend_buffer, ggml_init_params, ggml_tensor};
use crate::ggml::linking::functions::Functions;
use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::lock::Lock;
use crate::ggml::live::runtime::Runtime;

/// Frees what a buffer holds.
pub type Free = unsafe extern "C" fn(*mut ggml_backend_buffer);
/// Sets all bytes of a buffer to a value.
pub type Clear = unsafe extern "C" fn(*mut ggml_backend_buffer, u8);
/// Sets bytes of a tensor to a value: the tensor, the value, the offset of the first byte, and how many.
pub type Memset = unsafe extern "C" fn(*mut ggml_backend_buffer, *mut ggml_tensor, u8, usize, usize);
/// Sets bytes of a tensor: the tensor, the bytes, the offset of the first, and how many.
pub type Set = unsafe extern "C" fn(*mut ggml_backend_buffer, *mut ggml_tensor, *const c_void, usize, usize);

/// The numbers of functions in the tables of all known versions.
const LENGTHS: std::ops::RangeInclusive<usize> = 9..=16;

/// Where the first function is, which frees.
const FREE: usize = 0;
/// Where the function that sets bytes of a tensor to a value is, if ggml has one.
const MEMSET: usize = 3;

/// Bytes of the buffer that is looked at.
const PROBED: usize = 64;

/// Where the functions are, in words from the beginning of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct BufferInterface {
    clear: usize,
    has_memset: bool,
    has_set: bool,
}

/// Functions that take the place of those of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Replacements {
    /// Frees; calls the one that was there before.
    pub free: Free,
    /// Sets all bytes.
    pub clear: Clear,
    /// Sets bytes of a tensor.
    pub memset: Memset,
}

impl BufferInterface {
    /// Returns the interface of the buffers of the CPU in this ggml; `None` if its version is not known.
    pub fn of(runtime: &'static Runtime) -> Option<Self> {
        static FOUND: Lock<Vec<(usize, Option<BufferInterface>)>> = Lock::new(Vec::new());
        let address = std::ptr::from_ref(runtime).addr();
        let mut found = FOUND.lock();
        if let Some((_, known)) = found.iter().find(|(known, _)| *known == address) {
            return *known;
        }
        let interface = Probed::new(runtime).and_then(|probed| probed.interface());
        found.push((address, interface));
        interface
    }

    /// Returns whether a buffer, of any backend of this ggml, has a function that resets it: the last one, behind that which clears.
    pub fn resets(self, buffer: BufferRef) -> bool {
        let word = buffer.as_ptr().cast::<usize>().wrapping_add(self.clear + 1);
        // SAFETY: the table of a live buffer has this function in every known version.
        unsafe { word.read() != 0 }
    }

    /// Replaces functions of a buffer. Returns the one that frees it.
    ///
    /// # Safety
    /// `buffer` is a live buffer of the CPU of this ggml, and no other thread uses it.
    pub unsafe fn replace(self, buffer: BufferRef, by: Replacements) -> Option<Free> {
        let words = buffer.as_ptr().cast::<usize>();
        let word = |at: usize| words.wrapping_add(at);
        // SAFETY: the first word of a table of functions, which all buffers begin with.
        let free = unsafe { word(FREE).cast::<Option<Free>>().replace(Some(by.free)) };
        // SAFETY: a word of the table, as the probe has found.
        unsafe { word(self.clear).cast::<Clear>().write(by.clear) };
        if self.has_memset {
            // SAFETY: as above.
            unsafe { word(MEMSET).cast::<Memset>().write(by.memset) };
        }
        free
    }

    /// Replaces the function that sets bytes of a tensor. Returns `false` if ggml's is not where it is expected.
    ///
    /// # Safety
    /// As for [`BufferInterface::replace`].
    pub unsafe fn replace_set(self, buffer: BufferRef, by: Set) -> bool {
        if self.has_set {
            let word = buffer.as_ptr().cast::<usize>().wrapping_add(MEMSET + usize::from(self.has_memset));
            // SAFETY: a word of the table, as the probe has found.
            unsafe { word.cast::<Set>().write(by) };
        }
        self.has_set
    }
}

/// A small buffer of the CPU, freed when dropped.
struct Probed {
    runtime: &'static Runtime,
    buffer: NonNull<ggml_backend_buffer>,
}

impl Drop for Probed {
    fn drop(&mut self) {
        // SAFETY: a live buffer, which is not used any more.
        unsafe { (self.runtime.functions.ggml_backend_buffer_free)(self.buffer.as_ptr()) };
    }
}

/// The buffer for which one of the functions below was called.
static CALLED_FOR: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn note_clear(buffer: *mut ggml_backend_buffer, _: u8) {
    CALLED_FOR.store(buffer.addr(), Ordering::Relaxed);
}

unsafe extern "C" fn note_memset(buffer: *mut ggml_backend_buffer, _: *mut ggml_tensor, _: u8, _: usize, _: usize) {
    CALLED_FOR.store(buffer.addr(), Ordering::Relaxed);
}

unsafe extern "C" fn note_set(
    buffer: *mut ggml_backend_buffer,
    _: *mut ggml_tensor,
    _: *const c_void,
    _: usize,
    _: usize,
) {
    CALLED_FOR.store(buffer.addr(), Ordering::Relaxed);
}

impl Probed {
    fn new(runtime: &'static Runtime) -> Option<Self> {
        // SAFETY: takes nothing.
        let buffer_type = unsafe { (runtime.functions.ggml_backend_cpu_buffer_type?)() };
        // SAFETY: a live buffer type.
        let buffer = unsafe { (runtime.functions.ggml_backend_buft_alloc_buffer)(buffer_type, PROBED) };
        Some(Self { runtime, buffer: NonNull::new(buffer)? })
    }

    fn interface(&self) -> Option<BufferInterface> {
        // SAFETY: a live buffer.
        let buffer_type = unsafe { (self.runtime.functions.ggml_backend_buffer_get_type)(self.buffer.as_ptr()) };
        // SAFETY: within the buffer, since the type follows the table, where the search ends: every supported ggml has 9
        // functions or more.
        let is_type = |&length: &usize| unsafe { self.word(length).read() } == buffer_type.addr();
        let length = LENGTHS.into_iter().find(is_type)?;
        let clear = self.runtime.functions.ggml_backend_buffer_clear?;
        // SAFETY: a live buffer.
        let call = || unsafe { clear(self.buffer.as_ptr(), 0) };
        let clear = (MEMSET + 1..length).find(|&at| self.is_called(at, note_clear as *const () as usize, call))?;
        let mut found = BufferInterface { clear, has_memset: false, has_set: false };
        self.with_tensor(|tensor| {
            let Functions { ggml_backend_tensor_memset, ggml_backend_tensor_set, .. } = &self.runtime.functions;
            found.has_memset = ggml_backend_tensor_memset.is_some_and(|memset| {
                // SAFETY: a live tensor with that many bytes.
                self.is_called(MEMSET, note_memset as *const () as usize, || unsafe { memset(tensor, 0, 0, 4) })
            });
            found.has_set = ggml_backend_tensor_set.is_some_and(|set| {
                let place = MEMSET + usize::from(found.has_memset);
                // SAFETY: a live tensor with that many bytes, and as many to read.
                let call = || unsafe { set(tensor, [0u8; 4].as_ptr().cast(), 0, 4) };
                self.is_called(place, note_set as *const () as usize, call)
            });
        });
        Some(found)
    }

    /// Calls a function with a tensor in the buffer.
    fn with_tensor(&self, call: impl FnOnce(*mut ggml_tensor)) {
        let functions = &self.runtime.functions;
        let mut memory = [0u128; 128];
        let params =
            ggml_init_params { mem_size: size_of_val(&memory), mem_buffer: memory.as_mut_ptr().cast(), no_alloc: true };
        // SAFETY: the memory outlives the context, which is freed below.
        let context = unsafe { (functions.ggml_init)(params) };
        if context.is_null() {
            return;
        }
        // SAFETY: the context has room for a tensor; its number of F32 fits the buffer.
        let tensor = unsafe { (functions.ggml_new_tensor_1d)(context, 0, (PROBED / 8) as i64) };
        // SAFETY: a live buffer.
        let base = unsafe { (functions.ggml_backend_buffer_get_base)(self.buffer.as_ptr()) };
        // SAFETY: a tensor without memory, and the first address of a buffer that is large enough.
        unsafe { (functions.ggml_backend_tensor_alloc)(self.buffer.as_ptr(), tensor, base) };
        call(tensor);
        // SAFETY: the context was created above and is not used after this.
        unsafe { (functions.ggml_free)(context) };
    }

    /// Whether `call` calls `function` while it is at place `at` of the table.
    fn is_called(&self, at: usize, function: usize, call: impl FnOnce()) -> bool {
        let word = self.word(at);
        // SAFETY: a word of a live buffer, which only this thread uses.
        let earlier = unsafe { word.replace(function) };
        CALLED_FOR.store(0, Ordering::Relaxed);
        call();
        // SAFETY: as above.
        unsafe { word.write(earlier) };
        earlier != 0 && CALLED_FOR.load(Ordering::Relaxed) == self.buffer.as_ptr().addr()
    }

    fn word(&self, at: usize) -> *mut usize {
        self.buffer.as_ptr().cast::<usize>().wrapping_add(at)
    }
}
