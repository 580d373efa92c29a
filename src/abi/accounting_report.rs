//! `lastuse_accounting_device` and its like: reading, writing and freeing what devices hold.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;

use crate::ggml::write_accounting;
use crate::report::accounting::AccountingFormat;

use super::abort::{abort_on_panic, required};
use super::accounting::{Held, lastuse_accounting};
use super::last_error::{fail, set_last_error};
use super::process::c_string;
use super::struct_size::{required_struct, sized_struct};

/// The bytes of one device by what they are for: lastuse_accounting_device. weights + kv + compute + other + rounding
/// = total: the bytes that its buffer types were asked for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lastuse_device_sums {
    /// sizeof(struct lastuse_device_sums).
    pub struct_size: usize,
    /// The name of the device, valid until lastuse_accounting_free; "CPU" is the memory of the host.
    pub name: *const c_char,
    /// Tensors that are in memory before a graph runs, and that it only reads.
    pub weights: usize,
    /// Tensors that are in memory before a graph runs, and that it writes to: caches of keys and values, and states.
    pub kv: usize,
    /// Compute buffers.
    pub compute: usize,
    /// Everything else.
    pub other: usize,
    /// Padding behind tensors, up to the next address that a tensor may have.
    pub rounding: usize,
    /// All of these.
    pub total: usize,
    /// Bytes that the device says are free; 0 if it says nothing.
    pub device_free: usize,
    /// Bytes that the device says it has; 0 if it says nothing.
    pub device_total: usize,
}

sized_struct!(lastuse_device_sums);

/// Returns the number of devices: those on which a buffer is, or was while the process recorded.
///
/// # Safety
/// `accounting` comes from lastuse_accounting_new and is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_accounting_device_count(accounting: *const lastuse_accounting) -> usize {
    // SAFETY: NULL, or live, as the caller guarantees.
    abort_on_panic(|| unsafe { held("lastuse_accounting_device_count", accounting) }.accounting.devices.len())
}

/// Fills in the bytes of one device, counted from 0, by what they are for. Returns false if there is no such device.
///
/// # Safety
/// `accounting` comes from lastuse_accounting_new and is not freed; `report` points to struct_size bytes that no other
/// thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_accounting_device(
    accounting: *const lastuse_accounting,
    device: usize,
    report: *mut lastuse_device_sums,
) -> bool {
    const NAME: &str = "lastuse_accounting_device";
    abort_on_panic(|| {
        // SAFETY: NULL, or live, as the caller guarantees.
        let held = unsafe { held(NAME, accounting) };
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let report = unsafe { required_struct(NAME, "report", report) };
        let Some(sums) = device_sums(held, device) else {
            set_last_error(NAME, &format_args!("there is no device {device}; there are {}", held.names.len()));
            return false;
        };
        report.write(&sums);
        true
    })
}

fn device_sums(held: &Held, device: usize) -> Option<lastuse_device_sums> {
    let found = held.accounting.devices.get(device)?;
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let sums = &found.sums;
    Some(lastuse_device_sums {
        struct_size: 0,
        name: held.names.get(device)?.as_ptr(),
        weights: size(sums.weights),
        kv: size(sums.kv),
        compute: size(sums.compute),
        other: size(sums.other),
        rounding: size(sums.rounding),
        total: size(sums.total()),
        device_free: size(found.memory.map_or(0, |memory| memory.free)),
        device_total: size(found.memory.map_or(0, |memory| memory.total)),
    })
}

/// Returns an accounting as text: "txt" for tables of devices, buffers and tensors, "json" for the format
/// lastuse-accounting, "html" for a page, "log" for a line for each tensor. The caller frees the string with
/// lastuse_string_free. Returns NULL if there is no such format.
///
/// # Safety
/// `accounting` comes from lastuse_accounting_new and is not freed; `format` is a string that ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_accounting_text(
    accounting: *const lastuse_accounting,
    format: *const c_char,
) -> *mut c_char {
    const NAME: &str = "lastuse_accounting_text";
    abort_on_panic(|| {
        // SAFETY: NULL, or live, as the caller guarantees.
        let held = unsafe { held(NAME, accounting) };
        let format = required(format.cast_mut(), NAME, "format");
        // SAFETY: a string, as the caller guarantees.
        let word = unsafe { CStr::from_ptr(format.as_ptr()) }.to_string_lossy();
        match AccountingFormat::with_word(&word) {
            Some(format) => c_string(&format.format(&held.accounting)),
            None => {
                fail(NAME, &format_args!("there is no format {word:?}; known are txt, json, html, log"));
                null_mut()
            }
        }
    })
}

/// Writes an accounting to a file, completely or not at all, in the format of its ending: .txt, .json, .html, .log, or
/// none for tables. "%p" in the name stands for the number of the process. Returns false if the file cannot be written,
/// its ending is unknown, or it exists; a device, such as /dev/stderr, may exist.
///
/// # Safety
/// `accounting` comes from lastuse_accounting_new and is not freed; `path` is a string that ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_accounting_write(accounting: *const lastuse_accounting, path: *const c_char) -> bool {
    const NAME: &str = "lastuse_accounting_write";
    abort_on_panic(|| {
        // SAFETY: NULL, or live, as the caller guarantees.
        let held = unsafe { held(NAME, accounting) };
        let path = required(path.cast_mut(), NAME, "path");
        // SAFETY: a string, as the caller guarantees.
        let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path.as_ptr()) }.to_bytes());
        write_accounting(&held.accounting, path).inspect_err(|why| fail(NAME, why)).is_ok()
    })
}

/// Frees an accounting; does nothing for NULL.
///
/// # Safety
/// `accounting` is NULL, or comes from lastuse_accounting_new and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_accounting_free(accounting: *mut lastuse_accounting) {
    if !accounting.is_null() {
        // SAFETY: boxed by `lastuse_accounting_new`, and freed once, as the caller guarantees.
        drop(unsafe { Box::from_raw(accounting.cast::<Held>()) });
    }
}

/// Returns what an accounting points to; aborts if it is NULL.
///
/// # Safety
/// `accounting` is NULL, or comes from `lastuse_accounting_new` and is live for `'a`.
unsafe fn held<'a>(function: &str, accounting: *const lastuse_accounting) -> &'a Held {
    let accounting = required(accounting.cast_mut(), function, "accounting").cast::<Held>();
    // SAFETY: made by `lastuse_accounting_new`, and live, as the caller guarantees.
    unsafe { accounting.as_ref() }
}
