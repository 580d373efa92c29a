//! What ggml's functions say of stand-ins: that the processor can write them, that they are cleared, and that their memory is not free.

use std::ffi::c_char;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::contents;
use crate::ggml::linking::caller::caller;
use crate::ggml::linking::loaded::Object;
use crate::is_active;
use crate::search::find_anywhere;
use crate::stand_ins::{Buffer, Device, StandIn, with_all};
use crate::wrapped::of_object;

/// Wraps ggml's function: a stand-in that is cleared takes no memory.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_clear(buffer: Buffer, value: u8) {
    match with_all(|all| all.get(&buffer.addr()).cloned()) {
        // SAFETY: the memory of a live stand-in, which no other thread uses or frees, as ggml's function requires.
        Some(StandIn { addresses, is_own: true, .. }) => unsafe { contents::fill(&addresses, value) },
        Some(_) => {}
        None => {
            // SAFETY: its type in ggml-backend.h.
            let function: unsafe extern "C" fn(Buffer, u8) = unsafe { of_object(buffer, c"ggml_backend_buffer_clear") };
            // SAFETY: the caller's arguments, forwarded.
            unsafe { function(buffer, value) };
        }
    }
}

/// Wraps ggml's function: the processor can write stand-ins. A program that is told so reads weights right into them, which is left
/// out; otherwise it would read them to memory of its own first. ggml itself is told what is true of the buffer's type, since it
/// chooses backends by that.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_is_host(buffer: Buffer) -> bool {
    // SAFETY: its type in ggml-backend.h.
    let function: unsafe extern "C" fn(Buffer) -> bool = unsafe { of_object(buffer, c"ggml_backend_buffer_is_host") };
    // SAFETY: the caller's arguments, forwarded.
    let is_host = unsafe { function(buffer) };
    is_host || (with_all(|all| all.contains_key(&buffer.addr())) && !is_asked_by_ggml())
}

/// Returns `true` if ggml itself, or one of its backends, has called this library.
fn is_asked_by_ggml() -> bool {
    static KNOWN: Mutex<Vec<(Range<usize>, bool)>> = Mutex::new(Vec::new());
    let Some(caller) = caller() else { return true };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, is_ggml)) = known.iter().find(|(addresses, _)| addresses.contains(&caller)) {
        return *is_ggml;
    }
    let Some(object) = Object::at(caller) else { return true };
    let name = object.name();
    let name = name.rsplit('/').next().unwrap_or_default();
    let is_ggml = object.is_ggml == Some(true) || name.starts_with("libggml");
    known.push((object.addresses(), is_ggml));
    is_ggml
}

/// Returns `true` if lastuse has called this library.
fn is_asked_by_lastuse() -> bool {
    let lastuse = Object::at(find_anywhere(c"lastuse_version").addr());
    caller().is_some_and(|caller| lastuse.is_some_and(|lastuse| lastuse.addresses().contains(&caller)))
}

/// Wraps ggml's function: what stand-ins would take is not free.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_memory(device: Device, free: *mut usize, total: *mut usize) {
    // SAFETY: its type in ggml-backend.h.
    let function: unsafe extern "C" fn(Device, *mut usize, *mut usize) =
        unsafe { of_object(device, c"ggml_backend_dev_memory") };
    // SAFETY: the caller's arguments, forwarded.
    unsafe { function(device, free, total) };
    if is_active() && !free.is_null() {
        // SAFETY: a number that ggml's function has written.
        unsafe { take_from(device, free) };
    }
}

/// `struct ggml_backend_dev_props` of ggml-backend.h, as far as all versions agree.
#[repr(C)]
#[derive(Debug)]
pub struct DeviceProps {
    name: *const c_char,
    description: *const c_char,
    free: usize,
}

/// Wraps ggml's function: as [`ggml_backend_dev_memory`].
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_get_props(device: Device, props: *mut DeviceProps) {
    // SAFETY: its type in ggml-backend.h.
    let function: unsafe extern "C" fn(Device, *mut DeviceProps) =
        unsafe { of_object(device, c"ggml_backend_dev_get_props") };
    // SAFETY: the caller's arguments, forwarded.
    unsafe { function(device, props) };
    if is_active() && !props.is_null() {
        // SAFETY: a field of what ggml's function has written.
        let free = unsafe { &raw mut (*props).free };
        // SAFETY: as above.
        unsafe { take_from(device, free) };
    }
}

/// Takes what stand-ins would take of a device from what is free there. lastuse writes down what is free beside that.
///
/// # Safety
/// `free` points to a number.
unsafe fn take_from(device: Device, free: *mut usize) {
    if is_asked_by_lastuse() {
        return;
    }
    let is_here = |stand_in: &&StandIn| stand_in.device == Some(device.addr()) && stand_in.is_own;
    let held: usize = with_all(|all| all.values().filter(is_here).map(|it| it.addresses.len()).sum());
    // SAFETY: as the caller guarantees.
    let reported = unsafe { free.read() };
    // SAFETY: as above.
    unsafe { free.write(reported.saturating_sub(held)) };
}
