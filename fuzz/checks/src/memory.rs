//! Limits the memory that reading takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// An allocator that counts the allocated and not yet freed bytes of each thread.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let _ = TAKEN.try_with(|taken| taken.set(taken.get().saturating_sub(layout.size())));
        // SAFETY: the caller keeps the rules of `dealloc`, and `alloc` got the memory from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Does nothing in a thread that has dropped its counters.
fn count(size: usize) {
    let _ = TAKEN.try_with(|taken| {
        taken.set(taken.get() + size);
        let _ = MOST.try_with(|most| most.set(most.get().max(taken.get())));
    });
}

/// Calls `read` for an input of `length` bytes and limits the memory it takes, in proportion to the input. Measures
/// nothing unless [`Counting`] is the global allocator.
///
/// # Panics
/// When it takes more.
pub fn in_proportion<T>(length: usize, read: impl FnOnce() -> T) -> T {
    /// The shortest rows of a CSV file, two bytes, are records of some hundred bytes until they are refused.
    const PER_BYTE: usize = 256;
    const ALWAYS: usize = 1 << 20;
    let before = TAKEN.get();
    MOST.set(before);
    let result = read();
    let taken = MOST.get().saturating_sub(before);
    let allowed = ALWAYS + PER_BYTE * length;
    assert!(taken <= allowed, "{length} bytes of input took {taken} bytes of memory, more than {allowed}");
    result
}
