//! Pages of memory that the system takes when they are written, and takes back.

use std::ops::Range;

#[cfg(doc)]
use crate::ggml::platform::is_private_and_anonymous;
use crate::ggml::platform::{discard, page_size, resident_pages};

/// Sets the bytes at these addresses to 0: whole pages by giving them back, and the rest by writing. Pages that the system
/// does not take back, such as locked ones, are written.
///
/// # Safety
/// The addresses are writable memory for which [`is_private_and_anonymous`] has returned `true`, and no other thread uses it.
pub unsafe fn clear(addresses: Range<usize>) {
    let whole = whole_pages(&addresses);
    // SAFETY: writable memory that no other thread uses, in which whole pages may become 0.
    if whole.is_empty() || !unsafe { give_back(&whole) } {
        // SAFETY: writable memory that no other thread uses.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(addresses.start).write_bytes(0, addresses.len()) };
        return;
    }
    for edge in [addresses.start..whole.start, whole.end..addresses.end] {
        // SAFETY: as above.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(edge.start).write_bytes(0, edge.len()) };
    }
}

fn whole_pages(addresses: &Range<usize>) -> Range<usize> {
    let page = page_size();
    let start = addresses.start.checked_next_multiple_of(page).unwrap_or(addresses.end);
    start..(addresses.end / page * page).max(start)
}

/// Gives back the whole pages at these addresses, which are 0 when they are read again. Returns `false` if the system does not
/// take them.
///
/// # Safety
/// The addresses are memory for which [`is_private_and_anonymous`] has returned `true`, and its bytes are not needed.
pub unsafe fn give_back(addresses: &Range<usize>) -> bool {
    let pages = whole_pages(addresses);
    let start = std::ptr::with_exposed_provenance_mut(pages.start);
    // SAFETY: memory of this process, whose bytes are not needed: see "# Safety".
    unsafe { discard(start, pages.len()) }
}

/// Returns the bytes of the pages at these addresses that are in memory. `None` if the system does not say.
pub fn resident(addresses: &Range<usize>) -> Option<usize> {
    let page = page_size();
    let start = addresses.start / page * page;
    let pages = addresses.end.saturating_sub(start).div_ceil(page);
    resident_pages(start, pages).map(|resident| (resident * page).min(addresses.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ggml::platform::is_private_and_anonymous;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no mappings of the system")]
    fn cleared_pages_are_0_and_not_in_memory() {
        let pages = 64;
        let memory = vec![7u8; pages * page_size()];
        let start = memory.as_ptr().expose_provenance();
        let whole = start..start + memory.len();
        assert!(is_private_and_anonymous(&whole));
        assert!(resident(&whole).is_some_and(|bytes| bytes >= memory.len()));
        // SAFETY: memory of this test alone, which it owns.
        unsafe { clear(start + 3..start + memory.len() - 5) };
        assert!(resident(&whole).is_some_and(|bytes| bytes <= 4 * page_size()));
        let (head, tail) = (&memory[..3], &memory[memory.len() - 5..]);
        assert!(head.iter().chain(tail).all(|&byte| byte == 7));
        assert!(memory[3..memory.len() - 5].iter().all(|&byte| byte == 0));
    }
}
