//! A mutex of the system's thread library. Tools that look for races (valgrind's helgrind) know it, unlike the one of
//! Rust's standard library. And numbers of threads.

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the number of the calling thread, which no other has had. Works to the very end of a thread.
pub fn this_thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local! { static OWN: Cell<u64> = const { Cell::new(0) } }
    if OWN.get() == 0 {
        OWN.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    OWN.get()
}

use crate::ggml::platform::Mutex;

/// A mutex with its value. It is static, so it is never destroyed.
pub struct Lock<T> {
    mutex: Mutex,
    value: UnsafeCell<T>,
}

// SAFETY: the value is used by one thread at a time, the one that holds the mutex.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// Creates it unlocked.
    pub const fn new(value: T) -> Self {
        Self { mutex: Mutex::new(), value: UnsafeCell::new(value) }
    }

    /// Waits until no other thread holds it. Not to be called again by the thread that holds it.
    pub fn lock(&'static self) -> Locked<T> {
        // SAFETY: it is static, so it is never moved, and this thread does not hold it: see above.
        unsafe { self.mutex.lock() };
        Locked(self, PhantomData)
    }
}

/// The value of a [`Lock`], held by this thread. It stays with the thread, which alone may unlock the mutex.
pub struct Locked<T: 'static>(&'static Lock<T>, PhantomData<*const ()>);

impl<T> Deref for Locked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the mutex.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Locked<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the mutex, and there is one `Locked` at a time.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Locked<T> {
    fn drop(&mut self) {
        // SAFETY: this thread holds the mutex.
        unsafe { self.0.mutex.unlock() };
    }
}

impl<T> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns() {
        static COUNT: Lock<u64> = Lock::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| *COUNT.lock() += 1));
            }
        });
        assert_eq!(*COUNT.lock(), 40_000);
    }
}
