//! The sources of a batch of tensors.

use crate::ggml::live::tensor::{MAX_SOURCES, TensorRef};
use crate::ggml::outputs::redirect::redirected_to;
use crate::graph::TensorId;

/// Tensors in a batch: few enough to stay in the first cache of a processor, and to let it prefetch the next ones
/// meanwhile.
pub const BATCH: usize = 64;

/// Enough for the sources that most batches have, and for all that the last tensor can have.
const CAPACITY: usize = 3 * BATCH + MAX_SOURCES;

/// The sources of a batch of tensors: those of the first, then those of the next.
pub struct Sources<'g> {
    tensors: [Option<TensorRef<'g>>; CAPACITY],
    readers: [TensorId; CAPACITY],
    count: usize,
    ends: [u32; BATCH],
}

impl<'g> Sources<'g> {
    pub fn none() -> Self {
        Self { tensors: [None; _], readers: [0; _], count: 0, ends: [0; _] }
    }

    /// Collects the sources of `readers`, at most [`BATCH`] tensors, of which the first has the id `first`. Returns how
    /// many of them fit. Adds those whose results are redirected to `redirected`.
    #[inline]
    pub fn collect(&mut self, readers: &[TensorRef<'g>], first: TensorId, redirected: &mut Vec<TensorId>) -> usize {
        let (mut count, mut collected) = (0, 0);
        for ((tensor, end), reader) in readers.iter().zip(&mut self.ends).zip(first..) {
            let Some(tensors) = self.tensors[count..].first_chunk_mut::<MAX_SOURCES>() else { break };
            let Some(readers) = self.readers[count..].first_chunk_mut::<MAX_SOURCES>() else { break };
            let (slots, others) = tensor.used_slots();
            let mut used = 0;
            for source in slots {
                if source.is_some() {
                    (tensors[used], readers[used]) = (*source, reader);
                    used += 1;
                }
            }
            if let Some(others) = others {
                used = collect_others(others, tensors, used);
                readers[..used].fill(reader);
                redirected.extend(redirected_to(*tensor).map(|_| reader));
            }
            count += used;
            *end = u32::try_from(count).expect("few sources");
            collected += 1;
        }
        self.count = count;
        collected
    }

    /// Returns the collected sources.
    pub fn tensors(&self) -> &[Option<TensorRef<'g>>] {
        &self.tensors[..self.count]
    }

    /// Returns the tensor that uses each source.
    pub fn readers(&self) -> &[TensorId] {
        &self.readers[..self.count]
    }

    /// Returns, by reader, the end of its sources.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }
}

/// Adds the sources in the other slots to `tensors` after the first `used`, and returns their new number.
#[cold]
#[inline(never)]
fn collect_others<'g>(
    slots: &[Option<TensorRef<'g>>],
    tensors: &mut [Option<TensorRef<'g>>; MAX_SOURCES],
    mut used: usize,
) -> usize {
    for source in slots.iter().filter(|source| source.is_some()) {
        tensors[used] = *source;
        used += 1;
    }
    used
}
