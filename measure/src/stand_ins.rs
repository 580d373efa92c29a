//! The functions of ggml that allocate and free buffers. A buffer that would take memory is a stand-in: a buffer of ggml's in
//! address space that takes none, made one of the type that was asked for.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::contents;
use crate::end::{End, end, note_buffer};
use crate::search::find_wrapped;
use crate::wrapped::{of_ggml, of_lastuse, of_object};
use crate::{Allocate, is_active};

pub type Buffer = *mut c_void;
type BufferType = *mut c_void;
pub type Device = *mut c_void;

/// ggml's number of a device that is several.
const DEVICE_META: u32 = 4;

/// A buffer that takes no memory.
#[derive(Clone, Debug)]
pub struct StandIn {
    pub addresses: Range<usize>,
    /// Whether the addresses are of this library; otherwise the program has mapped a file there.
    pub is_own: bool,
    /// The device that it would take memory of, by its address; `None` for the host.
    pub device: Option<usize>,
}

static STAND_INS: Mutex<Option<HashMap<usize, StandIn>>> = Mutex::new(None);

pub fn with_all<T>(act: impl FnOnce(&mut HashMap<usize, StandIn>) -> T) -> T {
    let mut all: MutexGuard<'_, _> = STAND_INS.lock().unwrap_or_else(PoisonError::into_inner);
    act(all.get_or_insert_with(HashMap::new))
}

/// Tells lastuse of a buffer that the program has allocated.
fn note(buffer: Buffer, asked: usize, is_mapped: bool) {
    if !buffer.is_null() {
        // SAFETY: its type in lastuse.h.
        let note: unsafe extern "C" fn(Buffer, usize, bool) -> bool = unsafe { of_lastuse(c"lastuse_buffer_note") };
        // SAFETY: a live buffer, which nothing else knows yet.
        unsafe { note(buffer, asked, is_mapped) };
    }
}

/// Calls a function of ggml that may be missing.
///
/// # Safety
/// `F` is the type of the function of that name.
pub unsafe fn if_there<F: Copy>(name: &'static CStr) -> Option<F> {
    // SAFETY: `F` is its type, as the caller guarantees.
    (!find_wrapped(name).is_null()).then(|| unsafe { of_ggml(name) })
}

/// Returns whether the processor can read buffers of a type.
fn is_host(buffer_type: BufferType) -> bool {
    // SAFETY: its type in ggml-backend.h.
    let is_host: unsafe extern "C" fn(BufferType) -> bool =
        unsafe { of_object(buffer_type, c"ggml_backend_buft_is_host") };
    // SAFETY: a live buffer type.
    unsafe { is_host(buffer_type) }
}

fn device_of(buffer_type: BufferType) -> Device {
    // SAFETY: its type in ggml-backend.h.
    let device: Option<unsafe extern "C" fn(BufferType) -> Device> =
        unsafe { if_there(c"ggml_backend_buft_get_device") };
    // SAFETY: a live buffer type.
    device.map_or(null_mut(), |device| unsafe { device(buffer_type) })
}

fn kind_of(device: Device) -> Option<u32> {
    // SAFETY: its type in ggml-backend.h.
    let kind: unsafe extern "C" fn(Device) -> u32 = unsafe { if_there(c"ggml_backend_dev_type") }?;
    // SAFETY: a device of this ggml.
    (!device.is_null()).then(|| unsafe { kind(device) })
}

/// Allocates a buffer in place of `ggml_backend_buft_alloc_buffer`. One without bytes is real.
///
/// # Safety
/// The requirements of that function.
pub unsafe extern "C" fn allocate(buffer_type: BufferType, size: usize) -> Buffer {
    if size == 0 {
        // SAFETY: its type in ggml-backend.h.
        let function: Allocate = unsafe { of_object(buffer_type, c"ggml_backend_buft_alloc_buffer") };
        // SAFETY: the caller's arguments, forwarded.
        return unsafe { function(buffer_type, size) };
    }
    let device = device_of(buffer_type);
    if kind_of(device) == Some(DEVICE_META) {
        end(End::Unknown, "it allocates a buffer in parts on several devices (llama.cpp: --split-mode tensor)");
    }
    // SAFETY: a new mapping at an address that the system chooses affects no other.
    let memory = unsafe {
        libc::mmap(
            null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        end(End::Unknown, &format!("the system has no {size} bytes of address space for a buffer"));
    }
    // A page that is written takes no more than itself.
    // SAFETY: the mapping above.
    unsafe { libc::madvise(memory, size, libc::MADV_NOHUGEPAGE) };
    // SAFETY: memory of that size, which lives until the buffer is freed.
    let buffer = unsafe { stand_in(buffer_type, memory, size, true, Some(device).filter(|_| !is_host(buffer_type))) };
    let held = with_all(|all| all.values().filter(|it| it.is_own).map(|it| it.addresses.len()).sum());
    note_buffer(held, too_large(buffer_type, size));
    buffer
}

/// Returns a note if a type allocates less at once.
fn too_large(buffer_type: BufferType, size: usize) -> Option<String> {
    // SAFETY: its type in ggml-backend.h.
    let max_size: unsafe extern "C" fn(BufferType) -> usize =
        unsafe { of_object(buffer_type, c"ggml_backend_buft_get_max_size") };
    // SAFETY: its type in ggml-backend.h.
    let name: unsafe extern "C" fn(BufferType) -> *const c_char =
        unsafe { of_object(buffer_type, c"ggml_backend_buft_name") };
    // SAFETY: a live buffer type.
    let most = unsafe { max_size(buffer_type) };
    // SAFETY: a live buffer type.
    let name = unsafe { name(buffer_type) };
    // SAFETY: the name of a buffer type ends in NUL.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    (size > most).then(|| {
        format!("a buffer of {size} bytes is more than {name} allocates at once, {most}: the device may refuse it")
    })
}

/// Makes memory a buffer of a type.
///
/// # Safety
/// There are `size` bytes at `memory`, which live as long as the buffer.
unsafe fn stand_in(
    buffer_type: BufferType,
    memory: *mut c_void,
    size: usize,
    is_own: bool,
    device: Option<Device>,
) -> Buffer {
    // SAFETY: its type in ggml-backend.h.
    let cpu: unsafe extern "C" fn() -> BufferType = unsafe { of_object(buffer_type, c"ggml_backend_cpu_buffer_type") };
    // SAFETY: takes nothing.
    let cpu = unsafe { cpu() };
    // ggml's own definition. Looked up by a buffer type that the program defines, it would be the guard's wrapper, which notes the
    // buffer as one of the host.
    // SAFETY: its type in ggml-backend.h.
    let from_memory: Allocate = unsafe { of_object(cpu, c"ggml_backend_cpu_buffer_from_ptr") };
    // SAFETY: memory of that size: see "# Safety".
    let buffer = unsafe { from_memory(memory, size) };
    if buffer.is_null() {
        return buffer;
    }
    // SAFETY: a live buffer, which nothing else knows.
    if !unsafe { set_type(buffer, buffer_type) } {
        end(End::Unknown, "lastuse does not know the layout of its ggml's buffers");
    }
    let addresses = memory.expose_provenance()..memory.addr() + size;
    contents::add(&addresses);
    let device = device.map(|device| device.addr());
    with_all(|all| all.insert(buffer.expose_provenance(), StandIn { addresses, is_own, device }));
    buffer
}

/// Words from the beginning of a buffer, a table of functions, to its type.
const TYPE: Range<usize> = 9..17;

/// Makes a buffer one of another type: writes that to the word where its type is.
///
/// # Safety
/// `buffer` is a live buffer, which no other thread uses.
unsafe fn set_type(buffer: Buffer, buffer_type: BufferType) -> bool {
    // SAFETY: its type in ggml-backend.h.
    let type_of: unsafe extern "C" fn(Buffer) -> BufferType =
        unsafe { of_object(buffer, c"ggml_backend_buffer_get_type") };
    // SAFETY: a live buffer.
    let before = unsafe { type_of(buffer) };
    let word = |at: usize| buffer.cast::<BufferType>().wrapping_add(at);
    // SAFETY: words of the buffer: every supported ggml has a table of at least 9 functions, which the type follows, and two words
    // more. The search ends at the type.
    let found = TYPE.into_iter().find(|&at| unsafe { word(at).read() } == before);
    // SAFETY: the word of the type.
    let written = found.map(|at| unsafe { word(at).write(buffer_type) });
    // SAFETY: a live buffer.
    written.is_some() && unsafe { type_of(buffer) } == buffer_type
}

/// Wraps ggml's function.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buft_alloc_buffer(buffer_type: BufferType, size: usize) -> Buffer {
    if !is_active() {
        // SAFETY: its type in ggml-backend.h.
        let function: Allocate = unsafe { of_object(buffer_type, c"ggml_backend_buft_alloc_buffer") };
        // SAFETY: the caller's arguments, forwarded.
        return unsafe { function(buffer_type, size) };
    }
    // SAFETY: as ggml's function requires.
    let buffer = unsafe { allocate(buffer_type, size) };
    note(buffer, size, false);
    buffer
}

/// Wraps ggml's function.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_alloc_buffer(backend: *mut c_void, size: usize) -> Buffer {
    if !is_active() {
        // SAFETY: its type in ggml-backend.h.
        let function: Allocate = unsafe { of_object(backend, c"ggml_backend_alloc_buffer") };
        // SAFETY: the caller's arguments, forwarded.
        return unsafe { function(backend, size) };
    }
    // SAFETY: its type in ggml-backend.h.
    let type_of: unsafe extern "C" fn(*mut c_void) -> BufferType =
        unsafe { of_ggml(c"ggml_backend_get_default_buffer_type") };
    // SAFETY: a live backend.
    let buffer_type = unsafe { type_of(backend) };
    // SAFETY: a live buffer type.
    unsafe { ggml_backend_buft_alloc_buffer(buffer_type, size) }
}

/// Wraps ggml's function: memory of the program is noted.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_cpu_buffer_from_ptr(memory: *mut c_void, size: usize) -> Buffer {
    // SAFETY: its type in ggml-backend.h.
    let function: Allocate = unsafe { of_ggml(c"ggml_backend_cpu_buffer_from_ptr") };
    // SAFETY: the caller's arguments, forwarded.
    let buffer = unsafe { function(memory, size) };
    if is_active() {
        note(buffer, size, true);
    }
    buffer
}

/// Wraps ggml's function: no device gets the program's memory.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_buffer_from_host_ptr(
    device: Device,
    memory: *mut c_void,
    size: usize,
    max_tensor_size: usize,
) -> Buffer {
    // SAFETY: its type in ggml-backend.h.
    let type_of: unsafe extern "C" fn(Device) -> BufferType =
        unsafe { of_object(device, c"ggml_backend_dev_buffer_type") };
    // SAFETY: a live device.
    let buffer_type = unsafe { type_of(device) };
    let buffer = if !is_active() || is_host(buffer_type) {
        // SAFETY: its type in ggml-backend.h.
        let function: unsafe extern "C" fn(Device, *mut c_void, usize, usize) -> Buffer =
            unsafe { of_object(device, c"ggml_backend_dev_buffer_from_host_ptr") };
        // SAFETY: the caller's arguments, forwarded.
        unsafe { function(device, memory, size, max_tensor_size) }
    } else {
        // SAFETY: memory that lives as long as the buffer, as ggml's function requires.
        unsafe { stand_in(buffer_type, memory, size, false, Some(device)) }
    };
    if is_active() {
        note(buffer, size, true);
    }
    buffer
}

/// Wraps ggml's function.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_free(buffer: Buffer) {
    // SAFETY: its type in ggml-backend.h.
    let function: unsafe extern "C" fn(Buffer) = unsafe { of_object(buffer, c"ggml_backend_buffer_free") };
    if is_active() && !buffer.is_null() {
        // SAFETY: its type in lastuse.h.
        let freed: unsafe extern "C" fn(Buffer) -> bool = unsafe { of_lastuse(c"lastuse_buffer_note_free") };
        // SAFETY: a live buffer, which the caller frees.
        unsafe { freed(buffer) };
    }
    let stand_in = with_all(|all| all.remove(&buffer.addr()));
    // SAFETY: the caller's arguments, forwarded.
    unsafe { function(buffer) };
    if let Some(StandIn { addresses, is_own, .. }) = stand_in {
        contents::remove(&addresses);
        if is_own {
            let memory = std::ptr::with_exposed_provenance_mut(addresses.start);
            // SAFETY: a mapping of this library, whose buffer is freed.
            unsafe { libc::munmap(memory, addresses.len()) };
        }
    }
}
