//! Reserved address space, which takes memory only where it is used.

use std::ffi::c_void;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::ggml::platform;

/// The sum of all live reservations of this process.
static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// Returns the sum of all live reservations of this process.
pub fn reserved() -> usize {
    RESERVED.load(Ordering::Relaxed)
}

/// A reserved range of addresses: readable, writable, zero where it was never written. Unmapped when dropped.
#[derive(Debug)]
pub struct AddressSpace {
    start: *mut c_void,
    length: usize,
}

// SAFETY: a mapping belongs to the whole process; the pointer is never followed here.
unsafe impl Send for AddressSpace {}
// SAFETY: as above.
unsafe impl Sync for AddressSpace {}

/// The system refused to reserve address space.
#[derive(Debug)]
pub struct NoAddressSpace {
    /// Bytes that were requested.
    pub requested: usize,
    /// The least bytes that would have been enough, if the size was left to lastuse.
    pub minimum: Option<usize>,
    /// The error of the system.
    pub error: io::Error,
}

impl fmt::Display for NoAddressSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requested, minimum, error } = self;
        write!(f, "cannot reserve {requested} bytes of address space")?;
        if let Some(minimum) = minimum {
            write!(f, ", nor {minimum}, half of which would be released")?;
        }
        write!(
            f,
            ": {error}. Address space is limited (ulimit -v), accounted strictly (vm.overcommit_memory=2) or used "
        )?;
        write!(f, "up; set params.address_space to the most bytes that the context can need")
    }
}

impl AddressSpace {
    /// Reserves `bytes`, rounded up to whole pages.
    ///
    /// # Errors
    /// [`NoAddressSpace`].
    pub fn reserve(bytes: usize) -> Result<Self, NoAddressSpace> {
        let length = bytes.checked_next_multiple_of(platform::page_size()).unwrap_or(usize::MAX);
        Self::map(length).map_err(|error| NoAddressSpace { requested: bytes, minimum: None, error })
    }

    /// Reserves as much as the system allows: `max` bytes, or a quarter of that and so on, but at least `min`; both are
    /// whole pages. As much again stays free: where address space is short, the rest of the program needs some too.
    ///
    /// # Errors
    /// [`NoAddressSpace`] if not even `min` can be reserved.
    pub fn reserve_within(min: usize, max: usize) -> Result<Self, NoAddressSpace> {
        let mut length = max;
        loop {
            match Self::map(length.saturating_mul(2)) {
                Ok(mut space) => {
                    space.shorten_to(length);
                    return Ok(space);
                }
                Err(error) if length <= min => {
                    let minimum = Some(min.saturating_mul(2));
                    return Err(NoAddressSpace { requested: max, minimum, error });
                }
                Err(_) => length = (length / 4).max(min),
            }
        }
    }

    fn map(length: usize) -> io::Result<Self> {
        let start = platform::reserve(length)?;
        RESERVED.fetch_add(length, Ordering::Relaxed);
        Ok(Self { start, length })
    }

    /// Unmaps everything after the first `length` bytes, which are whole pages.
    fn shorten_to(&mut self, length: usize) {
        let rest = self.length.saturating_sub(length);
        if rest > 0 {
            // SAFETY: a reservation of `self`, whose end is unused.
            unsafe { platform::shorten(self.start, self.length, length) };
            RESERVED.fetch_sub(rest, Ordering::Relaxed);
            self.length = length;
        }
    }

    /// The first byte.
    pub fn start(&self) -> *mut c_void {
        self.start
    }

    /// The length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The addresses.
    pub fn addresses(&self) -> Range<usize> {
        self.start.addr()..self.start.addr() + self.length
    }

    /// Backs the first `length` bytes, or all if there are fewer, with small pages only: with huge pages a context of a
    /// few tensors would take 2 MiB.
    pub fn use_small_pages(&self, length: usize) {
        // SAFETY: a reservation of `self`.
        unsafe { platform::use_small_pages(self.start, length.min(self.length)) };
    }

    /// Releases its memory and keeps the first addresses, without access: any use faults.
    #[cfg(debug_assertions)]
    pub fn forbid(&mut self) {
        const KEPT: usize = 2 << 20;
        self.shorten_to(KEPT);
        // SAFETY: a reservation of `self`, which is no longer in use.
        unsafe { platform::forbid(self.start, self.length) };
    }
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        // SAFETY: a reservation of `self`; the owner drops it when it is no longer in use.
        unsafe { platform::release(self.start, self.length) };
        RESERVED.fetch_sub(self.length, Ordering::Relaxed);
    }
}
