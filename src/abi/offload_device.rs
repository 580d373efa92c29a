//! Devices of `lastuse_offload_*`: their budgets, and what is taken of them.

use std::ffi::{c_char, c_int};
use std::ptr::NonNull;

use crate::ggml::{BufferType, LiveDevice, ggml_of_object, ggml_of_type};
use crate::ggml::{ggml_backend, ggml_backend_buffer_type};
use crate::offload::device::Device;
use crate::placement::Bytes;

use super::arguments::buffer_type;
use super::c_types::sized_struct;
use super::call::{Call, Failed, call, number, size};
use super::offload::lastuse_offload;

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
    call("lastuse_offload_add_device", |call| {
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let planner = &mut unsafe { call.change(offload) }?.planner;
        // SAFETY: NULL or of its stated size: see "# Safety".
        let device = unsafe { call.params("device", device) };
        // SAFETY: what it names is NULL or live: see "# Safety".
        let live = unsafe { live_device(call, &device, planner.devices().len()) }?;
        Ok(number(planner.add_device(live)))
    })
}

/// # Errors
/// [`Failed`]: lastuse does not know the layout of its ggml.
///
/// # Safety
/// What `device` names is NULL or live.
unsafe fn live_device(call: Call, device: &lastuse_offload_device, index: usize) -> Result<LiveDevice, Failed> {
    let backend = NonNull::new(device.backend);
    let buffer_type = match (device.buft, backend) {
        (buft, _) if !buft.is_null() => {
            // SAFETY: a live buffer type: see "# Safety".
            let runtime = call.runtime(unsafe { ggml_of_type(buft) })?;
            // SAFETY: a live buffer type of this ggml.
            unsafe { buffer_type(runtime, buft) }
        }
        (_, Some(backend)) => {
            // SAFETY: a live backend: see "# Safety".
            let runtime = call.runtime(unsafe { ggml_of_object(backend.as_ptr()) })?;
            // SAFETY: a live backend of this ggml.
            let buft = unsafe { (runtime.functions.ggml_backend_get_default_buffer_type)(backend.as_ptr()) };
            // SAFETY: a buffer type of this ggml, which lives as long as its backend.
            unsafe { buffer_type(runtime, buft) }
        }
        (_, None) => None,
    };
    let unnamed = || buffer_type.map_or_else(|| format!("device {index}"), BufferType::name);
    // SAFETY: NULL or a string: see "# Safety".
    let name = unsafe { call.text_if_any(device.name) };
    let plain = Device {
        name: name.map_or_else(unnamed, |name| name.to_string_lossy().into_owned()),
        budget: (device.budget != usize::MAX).then_some(device.budget as Bytes),
        reserve: device.reserve as Bytes,
        granularity: (device.granularity as Bytes).max(1),
        alignment: device.alignment as Bytes,
        max_buffer: (device.max_buffer > 0).then_some(device.max_buffer as Bytes),
    };
    Ok(LiveDevice::new(plain, buffer_type, backend))
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
    call("lastuse_offload_device_report", |call| {
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let planner = &unsafe { call.look_at(offload) }?.planner;
        // SAFETY: NULL or of its stated size: see "# Safety".
        let report = unsafe { call.report(report) };
        let at = call.index("device", device, planner.devices().len())?;
        let given = planner.devices().nth(at).ok_or(Failed)?;
        let budget = given.budget.map_or(usize::MAX, size);
        let filled = match planner.placed() {
            Some(placed) => {
                let usage = &placed.usage[at];
                lastuse_offload_memory {
                    weights_size: size(usage.weights),
                    kv_size: size(usage.caches),
                    compute_size: size(usage.compute),
                    reserve_size: size(usage.reserve),
                    total_size: size(usage.total()),
                    budget,
                    ..Default::default()
                }
            }
            None if planner.shortages().is_empty() => return Err(call.refuse_silently(&NOT_PLACED)),
            None => {
                let shortage = planner.shortages().iter().find(|shortage| shortage.device == given.name);
                let needed_size = shortage.map_or(0, |shortage| size(shortage.needed));
                lastuse_offload_memory { budget, needed_size, ..Default::default() }
            }
        };
        report.write(&filled);
        Ok(true)
    })
}

/// Why no result can be reported.
pub(super) const NOT_PLACED: &str = "nothing has been placed: call lastuse_offload_solve first";
