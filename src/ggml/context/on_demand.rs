//! Buffers that take memory when it is written: those of the CPU in which a program allocates the tensors of a context.
//!
//! Programs clear caches before they use them. ggml writes zeros, so that every byte of a cache is in memory, used or not. Here
//! the buffer's own functions are replaced: whole pages are given back to the system instead, which has them read as 0 and
//! takes memory for them once they are written.

use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::NonNull;

use crate::ggml::bindings::{ggml_backend_buffer, ggml_tensor};
use crate::ggml::live::buffer_interface::{BufferInterface, Free, Replacements};
use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::lock::Lock;
use crate::ggml::live::pages::clear as clear_pages;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::platform::is_private_and_anonymous;

/// Smaller buffers stay as they are. Each page that is taken costs about a microsecond, which the smallest models notice where
/// they compute, and there is little to save.
const LEAST_BUFFER: usize = 32 << 20;

/// Smaller ranges are written: the system calls would take longer than they save.
const LEAST: usize = 1 << 20;

/// A buffer whose functions were replaced.
#[derive(Clone, Debug)]
struct Held {
    addresses: Range<usize>,
    /// The function of its backend that frees it.
    free: Option<Free>,
}

/// By address.
static HELD: Lock<BTreeMap<usize, Held>> = Lock::new(BTreeMap::new());

/// Has a new buffer take memory when it is written. Buffers of other types than the CPU's own, small ones, those in memory that
/// is not this process's alone, and those of unknown versions of ggml stay as they are.
///
/// # Safety
/// `buffer` is a live buffer of this type, and no other thread uses it.
pub unsafe fn take_when_written(buffer: NonNull<ggml_backend_buffer>, buffer_type: BufferType) {
    let runtime = buffer_type.runtime();
    // SAFETY: used in this function only, in which it lives.
    let buffer = unsafe { BufferRef::from_non_null(buffer) };
    let (base, size) = runtime.extent(buffer);
    let Ok(size) = usize::try_from(size) else { return };
    let addresses = base.expose_provenance()..base.addr() + size;
    if !buffer_type.is_plain_cpu() || size < LEAST_BUFFER || !is_private_and_anonymous(&addresses) {
        return;
    }
    let Some(interface) = BufferInterface::of(runtime) else { return };
    // SAFETY: a live buffer of the CPU that no other thread uses.
    let free = unsafe { interface.replace(buffer, Replacements { free: freed, clear: cleared, memset: set }) };
    HELD.lock().insert(buffer.as_ptr().addr(), Held { addresses, free });
}

/// Frees a buffer, as its backend does.
unsafe extern "C" fn freed(buffer: *mut ggml_backend_buffer) {
    let held = HELD.lock().remove(&buffer.addr());
    if let Some(free) = held.and_then(|held| held.free) {
        // SAFETY: the function that was there before; ggml frees the buffer.
        unsafe { free(buffer) };
    }
}

/// Sets all bytes of a buffer.
unsafe extern "C" fn cleared(buffer: *mut ggml_backend_buffer, value: u8) {
    let held = HELD.lock().get(&buffer.addr()).cloned();
    if let Some(held) = held {
        // SAFETY: the memory of a live buffer, which the program writes to.
        unsafe { fill(held.addresses, value) };
    }
}

/// Sets bytes of a tensor.
unsafe extern "C" fn set(_: *mut ggml_backend_buffer, tensor: *mut ggml_tensor, value: u8, offset: usize, size: usize) {
    // SAFETY: ggml passes a live tensor.
    if let Some(tensor) = unsafe { TensorRef::new(tensor) } {
        let start = tensor.data().expose_provenance() + offset;
        // SAFETY: bytes of a tensor in the buffer, as ggml has checked, which the program writes to.
        unsafe { fill(start..start + size, value) };
    }
}

/// # Safety
/// The addresses are memory of a buffer whose functions were replaced, and no other thread uses it.
unsafe fn fill(addresses: Range<usize>, value: u8) {
    if value == 0 && addresses.len() >= LEAST {
        // SAFETY: private and anonymous, as was found before the functions were replaced.
        unsafe { clear_pages(addresses) };
    } else {
        let start = std::ptr::with_exposed_provenance_mut::<u8>(addresses.start);
        // SAFETY: writable memory that no other thread uses.
        unsafe { start.write_bytes(value, addresses.len()) };
    }
}
