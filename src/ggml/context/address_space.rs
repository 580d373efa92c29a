//! Address space that takes memory only where it is used.

use std::ffi::c_void;
use std::fmt;
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that all live reservations of this process have together.
static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// Bytes that all live reservations of this process have together.
pub fn reserved() -> usize {
    RESERVED.load(Ordering::Relaxed)
}

/// A reservation: readable, writable, zero where it was never written. Given back when dropped.
#[derive(Debug)]
pub struct AddressSpace {
    start: *mut c_void,
    length: usize,
}

// SAFETY: a mapping belongs to the whole process; the pointer is never followed here.
unsafe impl Send for AddressSpace {}
// SAFETY: as above.
unsafe impl Sync for AddressSpace {}

/// The system refuses to reserve so much.
#[derive(Debug)]
pub struct NoAddressSpace {
    /// Bytes that were wanted.
    pub wanted: usize,
    /// Bytes that would have been enough, where the caller left the choice.
    pub enough: Option<usize>,
    /// What the system said.
    pub error: io::Error,
}

impl fmt::Display for NoAddressSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, enough, error } = self;
        write!(f, "cannot reserve {wanted} bytes of address space")?;
        if let Some(enough) = enough {
            write!(f, ", nor {enough}, of which half would be given back")?;
        }
        write!(
            f,
            ": {error}. Address space is limited (ulimit -v), accounted strictly (vm.overcommit_memory=2) or used "
        )?;
        write!(f, "up; set params.address_space to the bytes that the context can need at most")
    }
}

impl AddressSpace {
    /// So many bytes, rounded up to whole pages.
    ///
    /// # Errors
    /// [`NoAddressSpace`].
    pub fn reserve(wanted: usize) -> Result<Self, NoAddressSpace> {
        let length = wanted.checked_next_multiple_of(page()).unwrap_or(usize::MAX);
        Self::map(length).map_err(|error| NoAddressSpace { wanted, enough: None, error })
    }

    /// As many bytes as the system gives, from `most` downwards by quarters, but never fewer than `least`; both are
    /// whole pages. As much again stays free: where address space is short, the rest of the program needs some too.
    ///
    /// # Errors
    /// [`NoAddressSpace`] when not even the least can be had.
    pub fn reserve_within(least: usize, most: usize) -> Result<Self, NoAddressSpace> {
        let mut length = most;
        loop {
            match Self::map(length.saturating_mul(2)) {
                Ok(mut space) => {
                    space.shorten_to(length);
                    return Ok(space);
                }
                Err(error) if length <= least => {
                    let enough = Some(least.saturating_mul(2));
                    return Err(NoAddressSpace { wanted: most, enough, error });
                }
                Err(_) => length = (length / 4).max(least),
            }
        }
    }

    fn map(length: usize) -> io::Result<Self> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping where the system likes it touches no other.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        RESERVED.fetch_add(length, Ordering::Relaxed);
        Ok(Self { start, length })
    }

    /// Gives back what lies behind the first `length` bytes, which are whole pages.
    fn shorten_to(&mut self, length: usize) {
        let rest = self.length.saturating_sub(length);
        if rest > 0 {
            // SAFETY: the end of a mapping of ours, which nobody uses.
            unsafe { libc::munmap(self.start.wrapping_byte_add(length), rest) };
            RESERVED.fetch_sub(rest, Ordering::Relaxed);
            self.length = length;
        }
    }

    /// Its first byte.
    pub fn start(&self) -> *mut c_void {
        self.start
    }

    /// Bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Its addresses.
    pub fn addresses(&self) -> Range<usize> {
        self.start.addr()..self.start.addr() + self.length
    }

    /// Lets the first bytes, as many as there are up to `length`, take memory by small pages only: with huge ones a
    /// context of a few tensors would take 2 MiB.
    pub fn use_small_pages(&self, length: usize) {
        // SAFETY: advice about a mapping of ours. A system without huge pages refuses, and needs no advice.
        unsafe { libc::madvise(self.start, length.min(self.length), libc::MADV_NOHUGEPAGE) };
    }

    /// Gives its memory back and keeps the first addresses: whoever uses one from now on ends in a fault.
    #[cfg(debug_assertions)]
    pub fn forbid(&mut self) {
        const KEPT: usize = 2 << 20;
        self.shorten_to(KEPT);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: replaces a mapping of ours, which nobody may use any more.
        unsafe { libc::mmap(self.start, self.length, libc::PROT_NONE, flags, -1, 0) };
    }
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        // SAFETY: a mapping of ours; who drops it promises that nobody uses it any more.
        unsafe { libc::munmap(self.start, self.length) };
        RESERVED.fetch_sub(self.length, Ordering::Relaxed);
    }
}

/// Bytes of a page.
fn page() -> usize {
    // SAFETY: takes nothing but a name.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
