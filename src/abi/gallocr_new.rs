//! `ggml_gallocr_new*` and `ggml_gallocr_free`: graph allocators are made and freed.

use std::ffi::c_int;

use crate::ggml::{
    Allocator, BufferType, Ggml, Maker, Runtime, abort, forget, hand_to, maker, note_reached, original_events, remember,
};
use crate::ggml::{ggml_backend_buffer_type, ggml_gallocr};

use super::whose::{Whose, usable, whose};
use super::{guard, required};

/// An allocator for one buffer type; the caller frees it with [`ggml_gallocr_free`].
///
/// # Safety
/// `buft` outlives the allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_new(buft: *mut ggml_backend_buffer_type) -> *mut ggml_gallocr {
    const NAME: &str = "ggml_gallocr_new";
    // SAFETY: the caller's promise.
    guard(|| match usable(unsafe { maker(buft) }) {
        Maker::Original(ggml, original) => {
            // SAFETY: the caller's arguments, handed on.
            let galloc = hand_to(ggml, || unsafe { (original.gallocr_new)(buft) });
            // SAFETY: a live buffer type, as ggml has used it already.
            unsafe { note_made(ggml, galloc, &raw const buft, 1) };
            galloc
        }
        // SAFETY: the caller's promise.
        Maker::Lastuse(ggml, runtime) => unsafe { new_allocator(ggml, runtime, NAME, &[buft]) },
    })
}

/// An allocator for several buffer types: graphs name them by their index.
///
/// # Safety
/// `bufts` holds `n_bufs` buffer types, which outlive the allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_new_n(
    bufts: *mut *mut ggml_backend_buffer_type,
    n_bufs: c_int,
) -> *mut ggml_gallocr {
    const NAME: &str = "ggml_gallocr_new_n";
    guard(|| {
        let list = required(bufts, NAME, "bufts");
        let count = usize::try_from(n_bufs).unwrap_or(0);
        if count == 0 {
            abort(file!(), line!(), &format!("{NAME}: n_bufs is {n_bufs}, and at least 1 is needed"));
        }
        // SAFETY: that many pointers.
        let list = unsafe { std::slice::from_raw_parts(list.as_ptr(), count) };
        // SAFETY: the caller's promise.
        match usable(unsafe { maker(list[0]) }) {
            Maker::Original(ggml, original) => {
                // SAFETY: the caller's arguments, handed on.
                let galloc = hand_to(ggml, || unsafe { (original.gallocr_new_n)(bufts, n_bufs) });
                // SAFETY: that many live buffer types, as ggml has used them already.
                unsafe { note_made(ggml, galloc, bufts, n_bufs) };
                galloc
            }
            // SAFETY: the caller's promise.
            Maker::Lastuse(ggml, runtime) => unsafe { new_allocator(ggml, runtime, NAME, list) },
        }
    })
}

/// Frees an allocator and its buffers; NULL is fine.
///
/// # Safety
/// `galloc` comes from [`ggml_gallocr_new`] or [`ggml_gallocr_new_n`] and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_gallocr_free(galloc: *mut ggml_gallocr) {
    guard(|| {
        if galloc.is_null() {
            return;
        }
        // SAFETY: the caller's promise.
        match unsafe { whose("ggml_gallocr_free", galloc) } {
            Whose::Ggmls(ggml, original) => {
                original_events::freed(ggml, galloc);
                forget(galloc);
                // SAFETY: the caller's arguments, handed on.
                unsafe { (original.gallocr_free)(galloc) };
            }
            // SAFETY: made by `new_allocator`, and given back once.
            Whose::Ours(allocator) => drop(unsafe { Box::from_raw(allocator) }),
        }
    });
}

/// Notes an allocator that ggml's own functions have made.
///
/// # Safety
/// There are `count` buffer types, which are alive or null.
unsafe fn note_made(
    ggml: &'static Ggml,
    galloc: *mut ggml_gallocr,
    bufts: *const *mut ggml_backend_buffer_type,
    count: c_int,
) {
    remember(ggml, galloc);
    // SAFETY: the caller's promise.
    unsafe { original_events::made(ggml, galloc, bufts, count) };
}

/// # Safety
/// The buffer types outlive the allocator.
unsafe fn new_allocator(
    ggml: &'static Ggml,
    runtime: &'static Runtime,
    function: &str,
    bufts: &[*mut ggml_backend_buffer_type],
) -> *mut ggml_gallocr {
    note_reached();
    let types: Vec<BufferType> = (bufts.iter().enumerate())
        .map(|(index, &buft)| {
            let buft = required(buft, function, &format!("buffer type {index}"));
            // SAFETY: the caller's promise.
            unsafe { BufferType::new(runtime, buft) }
        })
        .collect();
    Box::into_raw(Box::new(Allocator::new(runtime, ggml.events.as_ref(), &types))).cast()
}
