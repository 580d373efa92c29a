//! `ggml_gallocr_new*` and `ggml_gallocr_free`: allocators, made by lastuse or by ggml.

use std::collections::BTreeSet;
use std::ffi::c_int;

use crate::ggml::{
    Allocator, BufferType, GallocFactory, Ggml, Lock, Runtime, forward_to, galloc_factory, note_reached,
    original_events, register_forwarded, unregister_forwarded,
};
use crate::ggml::{ggml_backend_buffer_type, ggml_gallocr};

use super::call::{Call, total};
use super::gallocr::GraphAllocator;

/// Creates an allocator for one buffer type; the caller frees it with [`ggml_gallocr_free`].
///
/// # Safety
/// `buft` is NULL, or a buffer type that outlives the allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_new(buft: *mut ggml_backend_buffer_type) -> *mut ggml_gallocr {
    // SAFETY: NULL or live: see "# Safety".
    total("ggml_gallocr_new", |call| match call.found(unsafe { galloc_factory(buft) }) {
        GallocFactory::Original(ggml, original) => {
            // SAFETY: ggml's function takes what the caller passes.
            let galloc = forward_to(ggml, || unsafe { (original.gallocr_new)(buft) });
            // SAFETY: one buffer type, which is live or NULL.
            unsafe { remember_original(ggml, galloc, &raw const buft, 1) };
            galloc
        }
        // SAFETY: the buffer type is NULL or outlives the allocator: see "# Safety".
        GallocFactory::Lastuse(ggml, runtime) => unsafe { new_allocator(call, ggml, runtime, (&[buft], true)) },
    })
}

/// Creates an allocator for several buffer types; a buffer id is an index of `bufts`. The caller frees the allocator
/// with [`ggml_gallocr_free`]. Aborts if `n_bufs` is less than 1 or a pointer is NULL.
///
/// # Safety
/// `bufts` is NULL, or holds `n_bufs` pointers that are NULL or buffer types that outlive the allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_new_n(
    bufts: *mut *mut ggml_backend_buffer_type,
    n_bufs: c_int,
) -> *mut ggml_gallocr {
    total("ggml_gallocr_new_n", |call| {
        let given = call.required("bufts", bufts);
        let count = usize::try_from(n_bufs).unwrap_or(0);
        if count == 0 {
            call.abort(&format_args!("n_bufs is {n_bufs}, and at least 1 is needed"));
        }
        // SAFETY: `n_bufs` pointers: see "# Safety".
        let list = unsafe { call.list("bufts", given.as_ptr(), count) };
        // SAFETY: NULL or live: see "# Safety".
        match call.found(unsafe { galloc_factory(list[0]) }) {
            GallocFactory::Original(ggml, original) => {
                // SAFETY: ggml's function takes what the caller passes.
                let galloc = forward_to(ggml, || unsafe { (original.gallocr_new_n)(bufts, n_bufs) });
                // SAFETY: `n_bufs` buffer types, which are live or NULL.
                unsafe { remember_original(ggml, galloc, bufts, n_bufs) };
                galloc
            }
            // SAFETY: each buffer type is NULL or outlives the allocator: see "# Safety".
            GallocFactory::Lastuse(ggml, runtime) => unsafe { new_allocator(call, ggml, runtime, (list, false)) },
        }
    })
}

/// Frees an allocator and its buffers; does nothing for NULL.
///
/// # Safety
/// `galloc` is NULL, or comes from [`ggml_gallocr_new`] or [`ggml_gallocr_new_n`], is used by no other thread, and is
/// not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_free(galloc: *mut ggml_gallocr) {
    total("ggml_gallocr_free", |call| {
        if galloc.is_null() {
            return;
        }
        // SAFETY: a live allocator of this thread: see "# Safety".
        match unsafe { GraphAllocator::of(call, galloc) } {
            GraphAllocator::Original(ggml, original) => {
                original_events::report_free(ggml, galloc);
                unregister_forwarded(galloc);
                // SAFETY: ggml's function takes what the caller passes.
                unsafe { (original.gallocr_free)(galloc) };
            }
            GraphAllocator::Lastuse(allocator) => {
                LIVE.lock().remove(&galloc.addr());
                // SAFETY: boxed by `new_allocator`, and freed once.
                drop(unsafe { Box::from_raw(allocator) });
            }
        }
    });
}

/// Remembers which ggml has made an allocator by its own functions.
///
/// # Safety
/// `bufts` holds `count` buffer types, which are live or NULL.
unsafe fn remember_original(
    ggml: &'static Ggml,
    galloc: *mut ggml_gallocr,
    bufts: *const *mut ggml_backend_buffer_type,
    count: c_int,
) {
    register_forwarded(ggml, galloc);
    // SAFETY: `count` buffer types, which are live or NULL: see "# Safety".
    unsafe { original_events::report_new(ggml, galloc, bufts, count) };
}

/// Creates an allocator of lastuse, which is known to be used directly or not; aborts if a buffer type is NULL.
///
/// # Safety
/// The buffer types are NULL, or of this ggml and outlive the allocator.
unsafe fn new_allocator(
    call: Call,
    ggml: &'static Ggml,
    runtime: &'static Runtime,
    (bufts, is_direct): (&[*mut ggml_backend_buffer_type], bool),
) -> *mut ggml_gallocr {
    note_reached();
    let types: Vec<BufferType> = (bufts.iter().enumerate())
        .map(|(index, &buft)| {
            let buft = call.required(&format!("buffer type {index}"), buft);
            // SAFETY: not NULL, so it outlives the allocator: see "# Safety".
            unsafe { BufferType::new(runtime, buft) }
        })
        .collect();
    let mut allocator = Box::new(Allocator::new(runtime, ggml.events.as_ref(), &types));
    if is_direct {
        allocator.note_direct_use();
    }
    let galloc: *mut ggml_gallocr = Box::into_raw(allocator).cast();
    LIVE.lock().insert(galloc.expose_provenance());
    galloc
}

/// The addresses of lastuse's allocators.
static LIVE: Lock<BTreeSet<usize>> = Lock::new(BTreeSet::new());

/// Returns all allocators of lastuse in this process.
pub(super) fn live_allocators() -> Vec<*mut ggml_gallocr> {
    LIVE.lock().iter().map(|&address| std::ptr::with_exposed_provenance_mut(address)).collect()
}
