//! `lastuse_gallocr_lower_bound` and `lastuse_gallocr_wanted_size`: bytes of the latest plan.

use std::ffi::c_int;

use crate::ggml::ggml_gallocr;

use super::abort::abort_on_panic;
use super::buffer_ids::checked_buffer_id;
use super::graph_allocator::lastuse_allocator;

/// Returns the lower bound of the latest plan for a buffer, in bytes: no plan with the same live ranges is smaller.
/// Compare it with ggml_gallocr_get_buffer_size. Returns 0 for an id that repeats the buffer type of an earlier one,
/// before the first plan, and if lastuse has not created galloc. Aborts if galloc has no buffer with this id.
///
/// # Safety
/// `galloc` is a live allocator that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_lower_bound(galloc: *mut ggml_gallocr, buffer_id: c_int) -> usize {
    const NAME: &str = "lastuse_gallocr_lower_bound";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let Some(allocator) = (unsafe { lastuse_allocator(NAME, galloc) }) else { return 0 };
        let id = checked_buffer_id(NAME, allocator, buffer_id);
        usize::try_from(allocator.lower_bound(id)).unwrap_or(usize::MAX)
    })
}

/// Returns the bytes that the latest plan requires for a buffer, even if they could not be allocated: how much to free,
/// after ggml_gallocr_reserve has returned false. Returns 0 and aborts as lastuse_gallocr_lower_bound does.
///
/// # Safety
/// `galloc` is a live allocator that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_wanted_size(galloc: *mut ggml_gallocr, buffer_id: c_int) -> usize {
    const NAME: &str = "lastuse_gallocr_wanted_size";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let Some(allocator) = (unsafe { lastuse_allocator(NAME, galloc) }) else { return 0 };
        let id = checked_buffer_id(NAME, allocator, buffer_id);
        usize::try_from(allocator.required_size(id)).unwrap_or(usize::MAX)
    })
}
