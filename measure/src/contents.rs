//! The bytes of stand-ins. What is small is kept, so that a program reads what it has written. What is large, as weights are, is
//! left out; where a program reads that, the dry run ends.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most bytes of a write that is kept.
pub const KEPT: usize = 64 << 10;

/// The address space of stand-ins, and what of it is left out: by their first addresses.
#[derive(Debug, Default)]
struct Contents {
    stand_ins: BTreeMap<usize, usize>,
    left_out: BTreeMap<usize, usize>,
}

static CONTENTS: Mutex<Contents> = Mutex::new(Contents { stand_ins: BTreeMap::new(), left_out: BTreeMap::new() });

fn contents() -> MutexGuard<'static, Contents> {
    CONTENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the bytes of a stand-in, all of which read as 0.
pub fn add(addresses: &Range<usize>) {
    let mut contents = contents();
    contents.keep(addresses);
    contents.stand_ins.insert(addresses.start, addresses.end);
}

/// Removes the bytes of a stand-in.
pub fn remove(addresses: &Range<usize>) {
    let mut contents = contents();
    contents.stand_ins.remove(&addresses.start);
    contents.keep(addresses);
}

/// Returns `true` for an address in a stand-in.
pub fn contains(address: usize) -> bool {
    let contents = contents();
    contents.stand_ins.range(..=address).next_back().is_some_and(|(_, &end)| address < end)
}

/// Returns `true` if none of these bytes was left out.
pub fn is_kept(addresses: &Range<usize>) -> bool {
    contents().left_out.range(..addresses.end).next_back().is_none_or(|(_, &end)| end <= addresses.start)
}

/// Notes that these bytes of a stand-in are left out.
pub fn leave_out(addresses: &Range<usize>) {
    if !addresses.is_empty() {
        let mut contents = contents();
        contents.keep(addresses);
        contents.left_out.insert(addresses.start, addresses.end);
    }
}

/// Writes bytes to a stand-in, or leaves them out if there are many.
///
/// # Safety
/// The bytes lie in a stand-in, there are as many at `from`, and no other thread uses them.
pub unsafe fn write(to: usize, from: *const c_void, size: usize) {
    if size > KEPT {
        leave_out(&(to..to + size));
    } else {
        contents().keep(&(to..to + size));
        // SAFETY: writable memory of that size: see "# Safety".
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(to).copy_from(from.cast(), size) };
    }
}

/// Sets bytes of a stand-in, or leaves them out if there are many that are not 0.
///
/// # Safety
/// The bytes lie in a stand-in, and no other thread uses them.
pub unsafe fn fill(addresses: &Range<usize>, value: u8) {
    if addresses.len() > KEPT && value != 0 {
        leave_out(addresses);
        return;
    }
    contents().keep(addresses);
    let start = std::ptr::with_exposed_provenance_mut::<u8>(addresses.start);
    // SAFETY: takes a constant.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let whole = addresses.start.next_multiple_of(page)..addresses.end / page * page;
    if value != 0 || whole.is_empty() {
        // SAFETY: writable memory of that size: see "# Safety".
        unsafe { start.write_bytes(value, addresses.len()) };
        return;
    }
    let pages = std::ptr::with_exposed_provenance_mut::<c_void>(whole.start);
    // SAFETY: whole pages of private memory, which are 0 when they are read again.
    unsafe { libc::syscall(libc::SYS_madvise, pages, whole.len(), libc::MADV_DONTNEED) };
    for edge in [addresses.start..whole.start, whole.end..addresses.end] {
        // SAFETY: writable memory of that size: see "# Safety".
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(edge.start).write_bytes(0, edge.len()) };
    }
}

impl Contents {
    /// Takes bytes out of what is left out.
    fn keep(&mut self, addresses: &Range<usize>) {
        let overlaps: Vec<Range<usize>> = self
            .left_out
            .range(..addresses.end)
            .rev()
            .map(|(&start, &end)| start..end)
            .take_while(|range| range.end > addresses.start)
            .collect();
        for range in overlaps {
            self.left_out.remove(&range.start);
            for rest in [range.start..addresses.start, addresses.end..range.end] {
                if !rest.is_empty() {
                    self.left_out.insert(rest.start, rest.end);
                }
            }
        }
    }
}
