//! Buffers that wait for the next allocator: programs that make an allocator for each request, or each phrase, take the same
//! memory again and again.
//!
//! A buffer waits where the user has set a limit, until an allocator takes it, its time is over, or memory is short. At the end of
//! the process the system has all back: the backends may be gone by then.

use std::time::Instant;

use crate::placement::Bytes;
use crate::settings::Limit;

use super::buffers::{Buffer, BufferType};
use super::lock::Lock;

/// A buffer that waits.
#[derive(Debug)]
struct Waiting {
    /// The address of its type.
    buffer_type: usize,
    buffer: Buffer,
    since: Instant,
}

/// The waiting buffers, the oldest first.
#[derive(Debug)]
struct Pool {
    limit: Option<Limit>,
    waiting: Vec<Waiting>,
}

static POOL: Lock<Pool> = Lock::new(Pool { limit: None, waiting: Vec::new() });

impl Pool {
    /// Takes out the smallest buffer of this type that has `size` bytes, and at most twice as many.
    fn take(&mut self, buffer_type: BufferType, size: Bytes) -> Option<Buffer> {
        let address = buffer_type.as_ptr().addr();
        let fits = |waiting: &Waiting| {
            waiting.buffer_type == address && (size..=size.saturating_mul(2)).contains(&waiting.buffer.size())
        };
        let found = self.waiting.iter().enumerate().filter(|(_, waiting)| fits(waiting));
        let (at, _) = found.min_by_key(|(_, waiting)| waiting.buffer.size())?;
        Some(self.waiting.remove(at).buffer)
    }

    /// Takes out the buffers whose time is over, and the oldest of those that are too much.
    fn surplus(&mut self) -> Vec<Waiting> {
        let Some(Limit { bytes, time }) = self.limit else { return std::mem::take(&mut self.waiting) };
        let mut kept: Bytes = self.waiting.iter().map(|waiting| waiting.buffer.size()).sum();
        let surplus = self.waiting.extract_if(.., |waiting| {
            let is_surplus = kept > bytes || waiting.since.elapsed() > time;
            kept -= if is_surplus { waiting.buffer.size() } else { 0 };
            is_surplus
        });
        surplus.collect()
    }
}

/// Sets how much waits; `None` frees all that waits.
pub fn set_limit(limit: Option<Limit>) {
    let surplus = {
        let mut pool = POOL.lock();
        pool.limit = limit;
        pool.surplus()
    };
    // Freed after the lock: backends may call the program.
    drop(surplus);
}

/// Allocates a buffer, one that waits if there is any; `None` if there is not enough memory, not even after all that waits was
/// freed.
pub fn allocate(buffer_type: BufferType, size: Bytes) -> Option<Buffer> {
    let (found, surplus) = {
        let mut pool = POOL.lock();
        (pool.take(buffer_type, size), pool.surplus())
    };
    drop(surplus);
    found.or_else(|| allocate_new(buffer_type, size))
}

/// Allocates a buffer that nothing has used; `None` if there is not enough memory, not even after all that waits was freed.
pub fn allocate_new(buffer_type: BufferType, size: Bytes) -> Option<Buffer> {
    buffer_type.allocate(size).or_else(|| if free_all() { buffer_type.allocate(size) } else { None })
}

/// Frees all that waits, since memory is short. Returns `false` if nothing did.
pub fn free_all() -> bool {
    let waiting = std::mem::take(&mut POOL.lock().waiting);
    !waiting.is_empty()
}

/// Frees a buffer, or has it wait for the next allocator. Types without a device, except for the CPU's own, are the program's,
/// which may free them after the last buffer.
pub fn free(buffer: Buffer) {
    let buffer_type = buffer.buffer_type();
    let is_lasting = |it: &BufferType| it.is_plain_cpu() || !it.device_of_type().is_null();
    let surplus = {
        let mut pool = POOL.lock();
        let waits = pool.limit.is_some() && buffer.size() > 0;
        if let Some(buffer_type) = buffer_type.filter(is_lasting).filter(|_| waits) {
            pool.waiting.push(Waiting { buffer_type: buffer_type.as_ptr().addr(), buffer, since: Instant::now() });
        }
        pool.surplus()
    };
    drop(surplus);
}
