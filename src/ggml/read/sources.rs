//! Whom the tensors that are looked at read.

use crate::ggml::redirect::redirected_to;
use crate::ggml::tensor::{MAX_SOURCES, TensorRef};
use crate::graph::TensorId;

use super::TOGETHER;

/// The sources of some tensors: those of the first, then those of the next.
pub struct Sources<'g> {
    tensors: [Option<TensorRef<'g>>; TOGETHER * MAX_SOURCES],
    readers: [TensorId; TOGETHER * MAX_SOURCES],
    count: usize,
    ends: [u32; TOGETHER],
}

impl<'g> Sources<'g> {
    pub fn none() -> Self {
        Self { tensors: [None; _], readers: [0; _], count: 0, ends: [0; _] }
    }

    /// Collects those of `readers`, which are at most so many as are looked at together, and of which the first has the id
    /// `first`. Notes whose results are redirected.
    #[inline]
    pub fn collect(&mut self, readers: &[TensorRef<'g>], first: TensorId, redirecting: &mut Vec<TensorId>) {
        let mut count = 0;
        for ((at, tensor), reader) in readers.iter().enumerate().zip(first..) {
            let (slots, others) = tensor.used_slots();
            for source in slots {
                if source.is_some() {
                    (self.tensors[count as usize], self.readers[count as usize]) = (*source, reader);
                    count += 1;
                }
            }
            if let Some(others) = others {
                count = self.collect_others(others, reader, count);
                redirecting.extend(redirected_to(*tensor).map(|_| reader));
            }
            self.ends[at] = count;
        }
        self.count = count as usize;
    }

    /// Collects sources in further slots, behind as many as `count` says, and tells how many there are then.
    #[cold]
    #[inline(never)]
    fn collect_others(&mut self, slots: &[Option<TensorRef<'g>>], reader: TensorId, mut count: u32) -> u32 {
        for source in slots.iter().filter(|source| source.is_some()) {
            (self.tensors[count as usize], self.readers[count as usize]) = (*source, reader);
            count += 1;
        }
        count
    }

    /// All that were collected.
    pub fn tensors(&self) -> &[Option<TensorRef<'g>>] {
        &self.tensors[..self.count]
    }

    /// Who reads each.
    pub fn readers(&self) -> &[TensorId] {
        &self.readers[..self.count]
    }

    /// By reader, where its sources end.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }
}
