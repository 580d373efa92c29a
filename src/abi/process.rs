//! The process: `lastuse_version`, `lastuse_enabled`, `lastuse_last_error`, `lastuse_stats_report`; and its settings,
//! `lastuse_set` and `lastuse_gallocr_set`; `lastuse_gallocr_trim` and `lastuse_buffer_allocate_by`.

use std::ffi::{CString, c_char};

use crate::ggml::{AllocatorSetting, allocate_by, captures, check_enabled, free_recycled, set, totals};
use crate::ggml::{ggml_backend_buffer, ggml_backend_buffer_type, ggml_gallocr};

use super::c_types::sized_struct;
use super::call::{abort_on_panic, call, last_error, set_last_error};
use super::gallocr_new::live_allocators;

/// Returns the version of lastuse, "major.minor.patch". The string is static: the caller does not free it.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns true if lastuse plans the graphs of the caller's ggml; if several ggmls are loaded and the caller is linked
/// with none of them, those of at least one. Returns false if LASTUSE is "off" in the environment, if lastuse does not
/// know the layout of this ggml, if calls of ggml-alloc.h do not reach lastuse (docs/linking.md), and if no ggml is
/// loaded. lastuse_last_error has the reason.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_enabled() -> bool {
    abort_on_panic(|| check_enabled().inspect_err(|why| set_last_error("lastuse_enabled", why)).is_ok())
}

/// Returns the reason of the latest error in this thread, preceded by the name of the function that failed, or of the
/// one that ggml's log names for it. Every function that fails sets it; a successful call does not clear it. The string
/// is valid until the next error in this thread, or the end of the thread; the caller does not free it. Before the
/// first error it is empty.
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_last_error() -> *const c_char {
    abort_on_panic(last_error)
}

/// Statistics of the process: lastuse_stats_report.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct lastuse_stats {
    /// sizeof(struct lastuse_stats).
    pub struct_size: usize,
    /// Allocators that exist now.
    pub allocators: usize,
    /// Plans made, those for measuring included.
    pub plans: u64,
    /// Times that a cached plan was used for a graph that was reserved again or allocated.
    pub served_again: u64,
    /// Time spent planning, in microseconds.
    pub planning_us: u64,
    /// Bytes of the buffers of the allocators that exist now.
    pub bytes: u64,
    /// Of these bytes, those that no plan could have saved: the lower bound of the largest plan of each buffer.
    pub lower_bound: u64,
    /// Graphs written to files (lastuse_set: capture).
    pub captures_written: u64,
    /// Graphs that could not be written to a file.
    pub captures_failed: u64,
}

sized_struct!(lastuse_stats);

/// Fills in the statistics of the process. Returns false, and writes nothing, if lastuse is not enabled. A call of
/// another thread at the same time may be counted in some fields and not yet in others.
///
/// # Safety
/// `report` points to struct_size bytes that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_stats_report(report: *mut lastuse_stats) -> bool {
    call("lastuse_stats_report", |call| {
        // SAFETY: NULL or of its stated size: see "# Safety".
        let report = unsafe { call.report(report) };
        check_enabled().map_err(|why| call.refuse_silently(&why))?;
        let (totals, [captures_written, captures_failed]) = (totals(), captures().counts());
        report.write(&lastuse_stats {
            allocators: usize::try_from(totals.allocators).unwrap_or(usize::MAX),
            plans: totals.plans,
            served_again: totals.served_again,
            planning_us: u64::try_from(totals.planning.as_micros()).unwrap_or(u64::MAX),
            bytes: totals.held,
            lower_bound: totals.lower_bounds,
            captures_written,
            captures_failed,
            ..lastuse_stats::default()
        });
        Ok(true)
    })
}

/// Frees a string that a function of lastuse returned to be freed by the caller; does nothing for NULL.
///
/// # Safety
/// `string` is NULL, or comes from a function of lastuse that says so, is unchanged, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_string_free(string: *mut c_char) {
    if !string.is_null() {
        // SAFETY: made by `c_string`, unchanged, and freed once: see "# Safety".
        drop(unsafe { CString::from_raw(string) });
    }
}

/// Sets a setting of the process by name, as its environment variable LASTUSE_NAME does at the start. For allocators created
/// from now on, those of schedulers included:
///   "rules", "effort", "reorder", "budget", "recompute", "on_demand", "arena", "verify"
/// For the whole process, at once:
///   "recycle", "retain", "capture", "dump", "dump_dir", "accounting", "live"
/// docs/settings.md describes each. NULL and "" are the default. Strings are copied. Returns false and changes nothing if name is
/// unknown, value is not valid or lastuse is not enabled.
///
/// # Safety
/// `name` is a string that ends in NUL, and `value` is NULL or one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_set(name: *const c_char, value: *const c_char) -> bool {
    call("lastuse_set", |call| {
        // SAFETY: NULL or a string: see "# Safety".
        let name = unsafe { call.text("name", name) };
        // SAFETY: NULL or a string: see "# Safety".
        let value = unsafe { call.text_if_any(value) };
        call.enabled()?;
        call.done(set(&name.to_string_lossy(), value.as_deref().unwrap_or_default())).map(|()| true)
    })
}

/// Sets "rules" or "effort" of one allocator, as lastuse_set does for later ones. The allocator drops its plans and
/// keeps its buffers: with several buffers, the next graph must be reserved first. Returns false and changes nothing if
/// name is another one, value is not valid or lastuse has not created galloc.
///
/// # Safety
/// `galloc` is a live allocator that no other thread uses; `name` is a string that ends in NUL, and `value` is NULL or one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_set(
    galloc: *mut ggml_gallocr,
    name: *const c_char,
    value: *const c_char,
) -> bool {
    call("lastuse_gallocr_set", |call| {
        // SAFETY: NULL or a string: see "# Safety".
        let name = unsafe { call.text("name", name) };
        // SAFETY: NULL or a string: see "# Safety".
        let value = unsafe { call.text_if_any(value) };
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let allocator = unsafe { call.allocator(galloc) }?;
        match call.done(AllocatorSetting::parse(&name.to_string_lossy(), value.as_deref().unwrap_or_default()))? {
            AllocatorSetting::Rules(rules) => allocator.set_rules(&rules),
            AllocatorSetting::Effort(effort) => allocator.set_effort(effort),
        }
        Ok(true)
    })
}

/// Gives back the memory of an allocator that its latest graph does not need: pages of the CPU's own buffers, whose addresses
/// stay, and memory of other buffer types at the next reservation. Plans stay, and larger graphs take memory again. NULL is all
/// allocators of the process, those of schedulers included, and what waits to be recycled. Returns false if lastuse has not
/// created galloc.
///
/// # Safety
/// `galloc` is a live allocator, or NULL. No other thread uses it, or any if it is NULL. No graph is being computed in its
/// buffers, and none but the one that was allocated last is computed or read before it is allocated again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_trim(galloc: *mut ggml_gallocr) -> bool {
    call("lastuse_gallocr_trim", |call| {
        let all = if galloc.is_null() {
            free_recycled();
            live_allocators()
        } else {
            vec![galloc]
        };
        for galloc in all {
            // SAFETY: live and used by no other thread: see "# Safety".
            let allocator = unsafe { call.allocator(galloc) }?;
            // SAFETY: only the graph allocated last is used: see "# Safety".
            unsafe { allocator.trim() };
        }
        Ok(true)
    })
}

/// Has lastuse allocate each buffer by a function of the program, in place of ggml_backend_buft_alloc_buffer: for buffers from a pool
/// of the program, or to be told of each. allocate returns a new buffer of this type, which lastuse frees with
/// ggml_backend_buffer_free, or NULL where there is no memory; any thread may call it, and it calls no function of lastuse that uses
/// an allocator. NULL: buffers are ggml's again. Types that place tensors themselves, on several devices, allocate on their own.
///
/// # Safety
/// `allocate` is NULL, or may be called by any thread as long as it is set, and returns NULL or what is described above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_buffer_allocate_by(
    allocate: Option<
        unsafe extern "C" fn(buft: *mut ggml_backend_buffer_type, size: usize) -> *mut ggml_backend_buffer,
    >,
) {
    // SAFETY: as the caller guarantees.
    abort_on_panic(|| unsafe { allocate_by(allocate) });
}

/// Returns text as a string that `lastuse_string_free` frees.
pub(super) fn c_string(text: &str) -> *mut c_char {
    CString::new(text.replace('\0', " ")).unwrap_or_default().into_raw()
}

/// Panics, to test what a panic does. Only in builds with the feature "panic-probe".
#[cfg(feature = "panic-probe")]
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_panic_probe() {
    abort_on_panic(|| panic!("probed on purpose"));
}
