//! A copy of a buffer in host memory, by which changes are seen.

use std::ops::Range;

use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::runtime::Runtime;

/// What fills free memory. As a number of any float type it is large and negative, or no number at all.
const POISON: u8 = 0xfd;

/// Bytes that are compared and copied together.
const PAGE: usize = 4096;

/// Changed bytes that are no further apart are told as one place.
const NEAR: usize = 64;

/// A buffer, and its bytes as they were.
#[derive(Debug)]
pub struct Shadow {
    /// The buffer.
    pub buffer: BufferRef,
    base: *mut u8,
    copy: Vec<u8>,
}

/// Changed bytes, from the start of the buffer: places, and how many bytes in all.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// In order.
    pub places: Vec<Range<usize>>,
    /// The sum.
    pub bytes: usize,
}

impl Shadow {
    /// A copy of a live buffer in host memory. `None` without memory for it.
    pub fn new(runtime: &Runtime, buffer: BufferRef) -> Option<Self> {
        let (base, size) = runtime.extent(buffer);
        let size = usize::try_from(size).ok()?;
        let mut copy = Vec::new();
        copy.try_reserve_exact(size).ok()?;
        let mut shadow = Self { buffer, base, copy };
        // SAFETY: the host memory of a live buffer, which nobody writes now.
        shadow.copy.extend_from_slice(unsafe { std::slice::from_raw_parts(shadow.base, size) });
        Some(shadow)
    }

    /// Is the buffer the one that was copied, at the same place?
    pub fn is_of(&self, runtime: &Runtime, buffer: BufferRef) -> bool {
        let (base, size) = runtime.extent(buffer);
        self.buffer == buffer && self.base == base && self.copy.len() as u64 == size
    }

    /// Where it starts.
    pub fn base(&self) -> usize {
        self.base.addr()
    }

    /// Its bytes as they are.
    fn memory(&self, range: Range<usize>) -> &[u8] {
        // SAFETY: inside of the host memory of a live buffer, which nobody writes while it is looked at.
        unsafe { std::slice::from_raw_parts(self.base.wrapping_add(range.start), range.len()) }
    }

    /// Takes all bytes as they are for right.
    pub fn refresh(&mut self) {
        self.accept(0..self.copy.len());
    }

    /// Takes these bytes as they are for right.
    pub fn accept(&mut self, range: Range<usize>) {
        let range = self.clipped(range);
        for start in range.clone().step_by(PAGE) {
            let page = start..range.end.min(start + PAGE);
            // SAFETY: as in `memory`, which would borrow the copy too.
            let memory = unsafe { std::slice::from_raw_parts(self.base.wrapping_add(page.start), page.len()) };
            let copy = &mut self.copy[page];
            if memory != copy {
                copy.copy_from_slice(memory);
            }
        }
    }

    /// Fills free bytes.
    pub fn poison(&mut self, range: Range<usize>) {
        let range = self.clipped(range);
        // SAFETY: inside of the host memory of a live buffer that an allocator made for computing, and nobody's.
        unsafe { self.base.wrapping_add(range.start).write_bytes(POISON, range.len()) };
        self.copy[range].fill(POISON);
    }

    /// What has changed elsewhere than in `allowed`, ranges from the start of the buffer.
    pub fn changes(&self, allowed: &[Range<usize>]) -> Changes {
        let mut allowed: Vec<Range<usize>> = allowed.iter().map(|range| self.clipped(range.clone())).collect();
        allowed.sort_by_key(|range| range.start);
        let mut changes = Changes::default();
        let mut at = 0;
        let end = self.copy.len();
        for range in allowed.into_iter().chain(std::iter::once(end..end)) {
            self.compare(at..range.start.max(at), &mut changes);
            at = at.max(range.end);
        }
        changes
    }

    fn compare(&self, range: Range<usize>, changes: &mut Changes) {
        for start in range.clone().step_by(PAGE) {
            let page = start..range.end.min(start + PAGE);
            let (memory, copy) = (self.memory(page.clone()), &self.copy[page]);
            if memory != copy {
                let differ = (start..).zip(memory.iter().zip(copy)).filter(|(_, (now, then))| now != then);
                differ.for_each(|(at, _)| changes.add(at));
            }
        }
    }

    fn clipped(&self, range: Range<usize>) -> Range<usize> {
        let end = range.end.min(self.copy.len());
        range.start.min(end)..end
    }
}

impl Changes {
    fn add(&mut self, at: usize) {
        self.bytes += 1;
        match self.places.last_mut() {
            Some(last) if at - last.end < NEAR => last.end = at + 1,
            _ => self.places.push(at..at + 1),
        }
    }
}
