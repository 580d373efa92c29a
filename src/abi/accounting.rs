//! `lastuse_accounting_json`, `lastuse_buffer_note`, `lastuse_buffer_note_free`: what devices hold.

use std::ffi::c_char;
use std::ptr::null_mut;

use crate::accounting::Moment;
use crate::ggml::{BufferRef, ggml_backend_buffer, ggml_of_object, note_buffer_allocated, note_buffer_freed, recorder};

use super::abort::{abort_on_panic, required};
use super::ggml_of_arguments::runtime_or_fail;
use super::last_error::set_last_error;
use super::process::c_string;

/// Returns what the devices hold, to the byte, as JSON in the format lastuse-accounting (docs/accounting.md): now or, with
/// at_peak, for each device at the moment when it held the most. Counts the buffers that lastuse has allocated since
/// recording began, those in which tensors of planned graphs lie, and those that are noted. The caller frees the string
/// with lastuse_string_free. Returns NULL if nothing is recorded (lastuse_set: accounting).
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_accounting_json(at_peak: bool) -> *mut c_char {
    const NAME: &str = "lastuse_accounting_json";
    abort_on_panic(|| {
        let json = recorder().json(if at_peak { Moment::Largest } else { Moment::Now });
        json.inspect_err(|why| set_last_error(NAME, why)).map_or(null_mut(), |json| c_string(&json))
    })
}

/// Notes a buffer that the program has allocated by functions that lastuse does not replace, such as
/// ggml_backend_alloc_buffer or ggml_backend_cpu_buffer_from_ptr. The program also notes when it frees them. asked are
/// the bytes that the buffer type was asked for; is_mapped is true for memory that was made a buffer, such as a mapped
/// file. Returns false if nothing is recorded, or lastuse does not know the layout of this ggml.
///
/// # Safety
/// `buffer` is live, and no other thread frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_buffer_note(buffer: *mut ggml_backend_buffer, asked: usize, is_mapped: bool) -> bool {
    const NAME: &str = "lastuse_buffer_note";
    abort_on_panic(|| {
        let buffer = required(buffer, NAME, "buffer");
        note_buffer_allocated(buffer.as_ptr().addr());
        // SAFETY: a live buffer: see # Safety.
        let ggml = unsafe { ggml_of_object(buffer.as_ptr().cast_const()) };
        let Some(runtime) = runtime_or_fail(NAME, ggml) else { return false };
        // SAFETY: live, and not freed meanwhile: see # Safety.
        let buffer = unsafe { BufferRef::from_non_null(buffer) };
        let noted = recorder().note_buffer(runtime, buffer, asked as u64, is_mapped);
        noted.inspect_err(|why| set_last_error(NAME, why)).is_ok()
    })
}

/// Notes that the program is about to free a buffer, whether or not it was noted. Returns false if nothing is recorded,
/// or lastuse does not know the layout of this ggml.
///
/// # Safety
/// `buffer` is live, and no other thread frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_buffer_note_free(buffer: *mut ggml_backend_buffer) -> bool {
    const NAME: &str = "lastuse_buffer_note_free";
    abort_on_panic(|| {
        let buffer = required(buffer, NAME, "buffer");
        note_buffer_freed(buffer.as_ptr().addr());
        // SAFETY: a live buffer: see # Safety.
        let ggml = unsafe { ggml_of_object(buffer.as_ptr().cast_const()) };
        let Some(runtime) = runtime_or_fail(NAME, ggml) else { return false };
        // SAFETY: live, and not freed meanwhile: see # Safety.
        let buffer = unsafe { BufferRef::from_non_null(buffer) };
        recorder().note_freed(runtime, buffer).inspect_err(|why| set_last_error(NAME, why)).is_ok()
    })
}
