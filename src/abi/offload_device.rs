//! Devices of `lastuse_offload_*`: their budgets, and what is taken of them.

use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;

use crate::ggml::{BufferType, Ggml, LiveDevice, NoGgml, Runtime, ggml_of_object, ggml_of_type};
use crate::ggml::{ggml_backend, ggml_backend_buffer_type};
use crate::offload::device::Device;
use crate::placement::Bytes;

use super::abort::abort_on_panic;
use super::ggml_of_arguments::runtime_or_fail;
use super::last_error::set_last_error;
use super::offload::{lastuse_offload, offload_to_change, offload_to_look_at};
use super::struct_size::{required_struct, sized_struct};

/// A device: lastuse_offload_add_device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lastuse_offload_device {
    /// sizeof(struct lastuse_offload_device).
    pub struct_size: usize,
    /// What messages call it. NULL: the name of the buffer type, or "device" and its number.
    pub name: *const c_char,
    /// The most bytes that may be used; SIZE_MAX for no limit.
    pub budget: usize,
    /// Bytes of the budget for what no buffer has, such as the context of a driver.
    pub reserve: usize,
    /// The device takes a multiple of this many bytes for a buffer; 0 counts as 1.
    pub granularity: usize,
    /// Tensors start at multiples of this power of two. 0: that of the buffer type, or 128 without one.
    pub alignment: usize,
    /// The most bytes of a buffer. 0: that of the buffer type, or no limit without one.
    pub max_buffer: usize,
    /// The type of its buffers. NULL: the default one of backend, or unknown.
    pub buft: *mut ggml_backend_buffer_type,
    /// The backend that computes there, which is asked what it supports; NULL: what is typical is assumed.
    pub backend: *mut ggml_backend,
}

sized_struct!(lastuse_offload_device);

/// What is taken of a device: lastuse_offload_device_report.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct lastuse_offload_memory {
    /// sizeof(struct lastuse_offload_memory).
    pub struct_size: usize,
    /// Its budget; SIZE_MAX for no limit.
    pub budget: usize,
    /// Bytes of the buffers of weights, rows of split items among them.
    pub weights_size: usize,
    /// Bytes of the buffers of caches.
    pub kv_size: usize,
    /// Bytes of the compute buffer: the largest of all graphs.
    pub compute_size: usize,
    /// The reserve.
    pub reserve_size: usize,
    /// The sum of the four.
    pub total_size: usize,
    /// The smallest budget that would do, if this one was too small for all offload plans that were measured; otherwise 0.
    pub needed_size: usize,
}

sized_struct!(lastuse_offload_memory);

/// Adds a device and returns its number, from 0. Devices are added in the order of preference; the last one is the
/// host, whose memory the CPU computes in. For a scheduler, add one for each of its backends, in their order. Buffer
/// type and backend live until lastuse_offload_free. Returns -1 if lastuse does not know the layout of their ggml.
///
/// # Safety
/// `offload` comes from lastuse_offload_new, and no other thread uses it; `device` points to struct_size bytes; its
/// name is NULL or ends in NUL; its buffer type and backend are NULL or live until lastuse_offload_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_offload_add_device(
    offload: *mut lastuse_offload,
    device: *const lastuse_offload_device,
) -> c_int {
    const NAME: &str = "lastuse_offload_add_device";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let offload = unsafe { offload_to_change(NAME, offload) };
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let device = unsafe { required_struct(NAME, "device", device.cast_mut()) }.read();
        let Some(mut offload) = offload else { return -1 };
        // SAFETY: what it names is NULL or live, as the caller guarantees.
        let live = unsafe { live_device(NAME, &device, offload.planner.devices().len()) };
        live.map_or(-1, |live| number(offload.planner.add_device(live)))
    })
}

/// # Safety
/// What `device` names is NULL or live.
unsafe fn live_device(function: &str, device: &lastuse_offload_device, index: usize) -> Option<LiveDevice> {
    let backend = NonNull::new(device.backend);
    let buffer_type = match (NonNull::new(device.buft), backend) {
        (None, None) => None,
        (Some(buft), _) => {
            // SAFETY: a live buffer type, as the caller guarantees.
            let runtime = runtime_or_fail(function, unsafe { ggml_of_type(buft.as_ptr()) })?;
            // SAFETY: as above.
            Some(unsafe { BufferType::new(runtime, buft) })
        }
        (None, Some(backend)) => {
            // SAFETY: a live backend, as the caller guarantees.
            let found: Result<&'static Ggml, NoGgml> = unsafe { ggml_of_object(backend.as_ptr()) };
            // SAFETY: as above.
            unsafe { default_type(runtime_or_fail(function, found)?, backend) }
        }
    };
    let name = match NonNull::new(device.name.cast_mut()) {
        // SAFETY: ends in NUL, as the caller guarantees.
        Some(name) => unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned(),
        None => buffer_type.map_or_else(|| format!("device {index}"), BufferType::name),
    };
    let plain = Device {
        name,
        budget: (device.budget != usize::MAX).then_some(device.budget as Bytes),
        reserve: device.reserve as Bytes,
        granularity: (device.granularity as Bytes).max(1),
        alignment: device.alignment as Bytes,
        max_buffer: (device.max_buffer > 0).then_some(device.max_buffer as Bytes),
    };
    Some(LiveDevice::new(plain, buffer_type, backend))
}

/// # Safety
/// `backend` is live, and of this ggml.
unsafe fn default_type(runtime: &'static Runtime, backend: NonNull<ggml_backend>) -> Option<BufferType> {
    // SAFETY: a live backend, as the caller guarantees.
    let buft = unsafe { (runtime.functions.ggml_backend_get_default_buffer_type)(backend.as_ptr()) };
    // SAFETY: a buffer type of this ggml, which lives as long as its backend.
    NonNull::new(buft).map(|buft| unsafe { BufferType::new(runtime, buft) })
}

/// Fills in what is taken of a device, if lastuse_offload_solve has placed the items; or the budget that it would
/// need, if that is why they were not placed. Returns false if there is neither.
///
/// # Safety
/// `offload` comes from lastuse_offload_new, and no other thread uses it; `report` points to struct_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_offload_device_report(
    offload: *const lastuse_offload,
    device: c_int,
    report: *mut lastuse_offload_memory,
) -> bool {
    const NAME: &str = "lastuse_offload_device_report";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let offload = unsafe { offload_to_look_at(NAME, offload) };
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let report = unsafe { required_struct(NAME, "report", report) };
        let Some(offload) = offload else { return false };
        let planner = &offload.planner;
        let count = planner.devices().len();
        let Some((at, given)) = usize::try_from(device).ok().and_then(|at| Some((at, planner.devices().nth(at)?)))
        else {
            set_last_error(NAME, &format_args!("there is no device {device}; there are {count}"));
            return false;
        };
        let filled = lastuse_offload_memory { budget: size(given.budget), ..Default::default() };
        let shortage = planner.shortages().iter().find(|shortage| shortage.device == given.name);
        let filled = match planner.placed() {
            Some(placed) => {
                let usage = &placed.usage[at];
                lastuse_offload_memory {
                    weights_size: size(Some(usage.weights)),
                    kv_size: size(Some(usage.caches)),
                    compute_size: size(Some(usage.compute)),
                    reserve_size: size(Some(usage.reserve)),
                    total_size: size(Some(usage.total())),
                    ..filled
                }
            }
            None if planner.shortages().is_empty() => {
                set_last_error(NAME, &"nothing has been placed: call lastuse_offload_solve first");
                return false;
            }
            None => lastuse_offload_memory { needed_size: shortage.map_or(0, |it| size(Some(it.needed))), ..filled },
        };
        report.write(&filled);
        true
    })
}

fn size(bytes: Option<Bytes>) -> usize {
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX)
}

fn number(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}
