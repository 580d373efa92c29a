//! Pages of memory that the system takes when they are written, and takes back.

use std::ops::Range;

/// Returns the bytes of a page.
fn page() -> usize {
    // SAFETY: takes a constant.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

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
    let page = page();
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
    unsafe { libc::madvise(start, pages.len(), libc::MADV_DONTNEED) == 0 }
}

/// Whether the memory at these addresses is this process's alone and in no file, so that pages that were given back are 0 when
/// they are read again. `false` if the system does not say.
pub fn is_private_and_anonymous(addresses: &Range<usize>) -> bool {
    std::fs::read_to_string("/proc/self/maps").is_ok_and(|maps| is_in_anonymous(&maps, addresses))
}

/// Whether mappings without files, private and writable, cover these addresses without a gap.
fn is_in_anonymous(maps: &str, addresses: &Range<usize>) -> bool {
    let mut next = addresses.start;
    for mapping in maps.lines().filter_map(Mapping::parse) {
        if next < addresses.end && mapping.addresses.contains(&next) {
            if !mapping.is_anonymous {
                return false;
            }
            next = mapping.addresses.end;
        }
    }
    next >= addresses.end
}

/// A line of `/proc/self/maps`.
struct Mapping {
    addresses: Range<usize>,
    is_anonymous: bool,
}

impl Mapping {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let (flags, inode) = (fields.next()?, fields.nth(2)?);
        let is_anonymous = flags.starts_with("rw") && flags.ends_with('p') && inode == "0";
        Some(Self { addresses: address(start)?..address(end)?, is_anonymous })
    }
}

/// Returns the bytes of the pages at these addresses that are in memory. `None` if the system does not say.
pub fn resident(addresses: &Range<usize>) -> Option<usize> {
    let page = page();
    let start = addresses.start / page * page;
    let mut states = vec![0u8; addresses.end.saturating_sub(start).div_ceil(page)];
    let length = states.len() * page;
    // SAFETY: one byte for each page is written; the call fails where nothing is mapped.
    let status = unsafe { libc::mincore(std::ptr::with_exposed_provenance_mut(start), length, states.as_mut_ptr()) };
    let resident = states.iter().filter(|&&state| state & 1 != 0).count() * page;
    (status == 0).then(|| resident.min(addresses.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
10000-20000 rw-p 00000000 00:00 0\n\
20000-28000 rw-p 00000000 00:00 0    [heap]\n\
30000-38000 rw-p 00000000 08:01 1234 /tmp/file\n\
38000-40000 rw-s 00000000 00:01 77   /dev/zero (deleted)\n\
40000-48000 rw-s 00000000 00:00 0\n\
48000-50000 r--p 00000000 00:00 0\n";

    #[test]
    fn memory_is_anonymous_where_all_its_mappings_are() {
        for addresses in [0x10000..0x20000, 0x10008..0x10010, 0x18000..0x28000] {
            assert!(is_in_anonymous(MAPS, &addresses), "{addresses:x?}");
        }
        for addresses in
            [0x27000..0x29000, 0x1f000..0x31000, 0x30000..0x31000, 0x38000..0x39000, 0x40000..0x41000, 0x48000..0x49000]
        {
            assert!(!is_in_anonymous(MAPS, &addresses), "{addresses:x?}");
        }
        assert!(!is_in_anonymous("", &(1..2)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no mappings of the system")]
    fn cleared_pages_are_0_and_not_in_memory() {
        let pages = 64;
        let memory = vec![7u8; pages * page()];
        let start = memory.as_ptr().expose_provenance();
        let whole = start..start + memory.len();
        assert!(is_private_and_anonymous(&whole));
        assert!(resident(&whole).is_some_and(|bytes| bytes >= memory.len()));
        // SAFETY: memory of this test alone, which it owns.
        unsafe { clear(start + 3..start + memory.len() - 5) };
        assert!(resident(&whole).is_some_and(|bytes| bytes <= 4 * page()));
        let (head, tail) = (&memory[..3], &memory[memory.len() - 5..]);
        assert!(head.iter().chain(tail).all(|&byte| byte == 7));
        assert!(memory[3..memory.len() - 5].iter().all(|&byte| byte == 0));
    }
}
