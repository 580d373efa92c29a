//! How much memory reading takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the bytes that each thread has taken and not given back.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let _ = TAKEN.try_with(|taken| taken.set(taken.get().saturating_sub(layout.size())));
        // SAFETY: the caller keeps the rules of `dealloc`, and `alloc` took the memory from the same allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// A thread that ends has nothing to count in any more.
fn count(size: usize) {
    let _ = TAKEN.try_with(|taken| {
        taken.set(taken.get() + size);
        let _ = MOST.try_with(|most| most.set(most.get().max(taken.get())));
    });
}

/// What `read` makes of an input of `length` bytes, which must not take much more memory than the input. Measures nothing
/// unless [`Counting`] is the global allocator.
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
