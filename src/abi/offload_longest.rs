//! `lastuse_offload_longest`: the longest context that fits.

use crate::offload::planner::LongestSearch;

use super::abort::abort_on_panic;
use super::struct_size::{required_struct, sized_struct};

/// A search for the longest context that fits. The caller sets from, to and step.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_offload_search {
    /// sizeof(struct lastuse_offload_search).
    pub struct_size: usize,
    /// The shortest context, rounded up to a multiple of step, at least step.
    pub from: u64,
    /// The longest context, rounded down to a multiple of step.
    pub to: u64,
    /// Contexts are a multiple of it; 0 counts as 1.
    pub step: u64,
    /// The context to try next, if lastuse_offload_longest returned true.
    pub length: u64,
    /// The longest context known to fit, 0 if none is: the result, after lastuse_offload_longest returned false.
    pub longest: u64,
    /// The shortest context that is known not to fit; 0 if none is.
    pub too_long: u64,
    /// Whether a context of length fits; set by the caller before the next call.
    pub fits: bool,
}

sized_struct!(lastuse_offload_search);

/// Goes on with a search for the longest context that fits: takes from fits whether length does, and sets length to the
/// context to try next. Returns false at the end; then longest is the result. Tries the longest context first, then the
/// shortest, and then halves what is left: what fits must also fit with a shorter context.
///
/// # Safety
/// `search` points to struct_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_offload_longest(search: *mut lastuse_offload_search) -> bool {
    const NAME: &str = "lastuse_offload_longest";
    abort_on_panic(|| {
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let given = unsafe { required_struct(NAME, "search", search) };
        let mut search = given.read();
        let lastuse_offload_search { from, to, step, longest, too_long, .. } = search;
        let mut state = LongestSearch { from, to, step, longest, too_long };
        if search.length > 0 {
            state.note(search.length, search.fits);
        }
        let next = state.next();
        (search.longest, search.too_long, search.length) = (state.longest, state.too_long, next.unwrap_or(0));
        given.write(&search);
        next.is_some()
    })
}
