//! A copy of a buffer in host memory, to detect changes.

use std::ops::Range;

use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::runtime::Runtime;

/// The byte that fills free memory. As a number of any float type it is large and negative, or NaN.
const POISON: u8 = 0xfd;

/// Bytes that are compared and copied together.
const PAGE: usize = 4096;

/// Changed bytes closer than this are reported as one place.
const NEAR: usize = 64;

/// A buffer, and a copy of its bytes.
#[derive(Debug)]
pub struct BufferCopy {
    /// The buffer.
    pub buffer: BufferRef,
    base: *mut u8,
    copy: Vec<u8>,
}

/// Changed bytes, as offsets from the start of the buffer.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The changed places, in order.
    pub places: Vec<Range<usize>>,
    /// The number of changed bytes.
    pub bytes: usize,
}

impl BufferCopy {
    /// Copies a live buffer in host memory. `None` if there is no memory for that.
    pub fn new(runtime: &Runtime, buffer: BufferRef) -> Option<Self> {
        let (base, size) = runtime.extent(buffer);
        let size = usize::try_from(size).ok()?;
        let mut copy = Vec::new();
        copy.try_reserve_exact(size).ok()?;
        let mut this = Self { buffer, base, copy };
        // SAFETY: the host memory of a live buffer, which no thread writes now.
        this.copy.extend_from_slice(unsafe { std::slice::from_raw_parts(this.base, size) });
        Some(this)
    }

    /// Returns `true` if `buffer` is the one that was copied, with the same address and size.
    pub fn is_of(&self, runtime: &Runtime, buffer: BufferRef) -> bool {
        let (base, size) = runtime.extent(buffer);
        self.buffer == buffer && self.base == base && self.copy.len() as u64 == size
    }

    /// The first address of the buffer.
    pub fn base(&self) -> usize {
        self.base.addr()
    }

    /// Returns the bytes at these addresses as they are now, if they are in the buffer.
    pub fn bytes(&self, addresses: &Range<usize>) -> Option<Vec<u8>> {
        let [start, end] = [addresses.start, addresses.end].map(|at| at.checked_sub(self.base()));
        let range = start?..end?;
        (range.start <= range.end && range.end <= self.copy.len()).then(|| self.memory(range).to_vec())
    }

    /// Returns bytes of the buffer as they are now.
    fn memory(&self, range: Range<usize>) -> &[u8] {
        // SAFETY: inside of the host memory of a live buffer, which no thread writes while it is compared.
        unsafe { std::slice::from_raw_parts(self.base.wrapping_add(range.start), range.len()) }
    }

    /// Copies all bytes again.
    pub fn refresh(&mut self) {
        self.accept(0..self.copy.len());
    }

    /// Copies these bytes again.
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

    /// Poisons free bytes in the buffer and in the copy.
    pub fn poison(&mut self, range: Range<usize>) {
        let range = self.clipped(range);
        // SAFETY: inside of the host memory of a live compute buffer, where no tensor is live.
        unsafe { self.base.wrapping_add(range.start).write_bytes(POISON, range.len()) };
        self.copy[range].fill(POISON);
    }

    /// Returns the changes outside of `allowed`, ranges of offsets.
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
                let differ = (start..).zip(memory.iter().zip(copy)).filter(|(_, (now, before))| now != before);
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
