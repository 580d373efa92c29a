//! Whom the tensors that are looked at read.

use crate::ggml::live::tensor::{MAX_SOURCES, TensorRef};
use crate::ggml::outputs::redirect::redirected_to;
use crate::graph::TensorId;

/// How many tensors are looked at together: few enough to stay in the nearest cache of a processor, and that it fetches the
/// next ones while it still works on the last.
pub const TOGETHER: usize = 64;

/// Room for the sources that so many tensors mostly have, and for all that the last of them can have.
const ROOM: usize = 3 * TOGETHER + MAX_SOURCES;

/// The sources of some tensors: those of the first, then those of the next.
pub struct Sources<'g> {
    tensors: [Option<TensorRef<'g>>; ROOM],
    readers: [TensorId; ROOM],
    count: usize,
    ends: [u32; TOGETHER],
}

impl<'g> Sources<'g> {
    pub fn none() -> Self {
        Self { tensors: [None; _], readers: [0; _], count: 0, ends: [0; _] }
    }

    /// Collects those of `readers`, at most so many as are looked at together, and of which the first has the id `first`.
    /// Returns how many of them there was room for. Adds those whose results are redirected to `redirecting`.
    #[inline]
    pub fn collect(&mut self, readers: &[TensorRef<'g>], first: TensorId, redirecting: &mut Vec<TensorId>) -> usize {
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
                redirecting.extend(redirected_to(*tensor).map(|_| reader));
            }
            count += used;
            *end = u32::try_from(count).expect("few sources");
            collected += 1;
        }
        self.count = count;
        collected
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

/// Adds the sources in further slots to `tensors`, behind as many as are `used`, and tells how many there are then.
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
