//! What ggml's functions say of stand-ins: that the processor can write them, that they are cleared, and that their memory is not free.

use std::ops::Range;
use std::ptr::null;
use std::sync::{Mutex, PoisonError};

use crate::contents;
use crate::ggml::linking::caller::caller;
use crate::ggml::linking::loaded::Object;
use crate::is_active;
use crate::search::find_anywhere;
use crate::stand_ins::{Buffer, Device, StandIn, if_there, with_all};
use crate::wrapped::of_object;

/// ggml's number of buffers for the results of graphs.
const USAGE_COMPUTE: u32 = 2;

/// Sets the memory of graphs to 0 after one that was not computed: what is read of it are results.
pub fn clear_results() {
    // SAFETY: its type in ggml-backend.h. Before it was there, no buffer was marked.
    let usage: Option<unsafe extern "C" fn(Buffer) -> u32> = unsafe { if_there(c"ggml_backend_buffer_get_usage") };
    let Some(usage) = usage else { return };
    let all: Vec<(usize, Range<usize>)> =
        with_all(|all| all.iter().map(|(at, it)| (*at, it.addresses.clone())).collect());
    for (buffer, addresses) in all {
        // SAFETY: a live buffer.
        if unsafe { usage(std::ptr::with_exposed_provenance_mut(buffer)) } == USAGE_COMPUTE {
            // SAFETY: memory of a live stand-in. The program waits for its graph.
            unsafe { contents::fill(&addresses, 0) };
        }
    }
}

/// Wraps ggml's function: a stand-in that is cleared takes no memory.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_clear(buffer: Buffer, value: u8) {
    match with_all(|all| all.get(&buffer.addr()).cloned()) {
        // SAFETY: the memory of a live stand-in, which no other thread uses, as ggml's function requires.
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
    // lastuse writes down what is free, beside what stand-ins would take of that.
    if is_active() && free != null::<usize>().cast_mut() && !is_asked_by_lastuse() {
        let is_here = |stand_in: &&StandIn| stand_in.device == Some(device.addr()) && stand_in.is_own;
        let held: usize = with_all(|all| all.values().filter(is_here).map(|it| it.addresses.len()).sum());
        // SAFETY: not null, so a number that ggml's function has written.
        let reported = unsafe { free.read() };
        // SAFETY: as above.
        unsafe { free.write(reported.saturating_sub(held)) };
    }
}
