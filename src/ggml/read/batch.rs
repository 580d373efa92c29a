//! What is collected of a batch of tensors while they are in the cache: their sources and their sizes.

use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{MAX_SOURCES, TensorRef};
use crate::ggml::outputs::redirect::redirected_to;
use crate::graph::{Graph, LayoutId, TensorId};
use crate::placement::Bytes;

use super::Requested;

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
        Self { tensors: [None; CAPACITY], readers: [0; CAPACITY], count: 0, ends: [0; BATCH] }
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

/// Most graphs have at most this many distinct layouts.
const FEW_LAYOUTS: usize = 32;

/// The sizes of the tensors of a graph, as far as they are known.
#[derive(Debug)]
pub struct AllocSizes {
    /// By layout, bytes from the first to the last element; `None` if no buffer type uses those as sizes.
    of_layouts: Option<Vec<Bytes>>,
    /// By id of listed tensors: bytes in the requested buffer, and 0 for tensors that need no memory. `None` if sizes
    /// depend on the layout alone in all buffer types, or if a tensor is listed twice.
    of_tensors: Option<Vec<Bytes>>,
}

impl AllocSizes {
    /// Creates an empty value for `listed` tensors that are planned in `types`; `listed` is 0 if a tensor is listed
    /// twice.
    pub fn new(types: &[BufferType], listed: usize) -> Self {
        let by_layout = |buffer_type: &BufferType| buffer_type.alloc_size_is_nbytes();
        Self {
            of_layouts: types.iter().any(by_layout).then(|| Vec::with_capacity(FEW_LAYOUTS)),
            of_tensors: (listed > 0 && !types.iter().all(by_layout)).then(|| Vec::with_capacity(listed)),
        }
    }

    /// Adds the new layouts among those of `tensors`, the last ones in `graph`.
    #[inline]
    pub fn add_layouts(&mut self, runtime: &Runtime, graph: &Graph, tensors: &[TensorRef<'_>]) {
        if let Some(sizes) = &mut self.of_layouts
            && sizes.len() < graph.distinct_layouts()
        {
            let layouts = graph.layout_ids();
            for (&layout, &tensor) in layouts[layouts.len() - tensors.len()..].iter().zip(tensors) {
                add_if_new(runtime, sizes, layout, tensor);
            }
        }
    }

    /// Adds the layout of a tensor if it is new.
    pub fn add_layout(&mut self, runtime: &Runtime, layout: LayoutId, tensor: TensorRef<'_>) {
        if let Some(sizes) = &mut self.of_layouts {
            add_if_new(runtime, sizes, layout, tensor);
        }
    }

    /// Adds the sizes of `tensors`, the last ones in `graph`, in the requested buffers. Calls ggml for those that need
    /// memory in types whose sizes do not depend on the layout alone.
    #[inline]
    pub fn add_tensors(
        &mut self,
        types: &[BufferType],
        requested: &Requested,
        graph: &Graph,
        tensors: &[TensorRef<'_>],
    ) {
        let Some(sizes) = &mut self.of_tensors else { return };
        let first = sizes.len();
        let added = graph.tensors()[first..].iter().zip(tensors);
        sizes.extend((first..).zip(added).map(|(position, (planned, &tensor))| {
            let buffer_type = types[requested.buffer(position) as usize];
            if planned.is_owned() && !buffer_type.alloc_size_is_nbytes() { buffer_type.alloc_size(tensor) } else { 0 }
        }));
    }

    /// Returns the sizes of all layouts, by layout, if all `count` are known.
    pub fn of_all_layouts(&self, count: usize) -> Option<&[Bytes]> {
        self.of_layouts.as_deref().filter(|sizes| sizes.len() == count)
    }

    /// Returns the size of a layout.
    #[inline]
    pub fn of_layout(&self, layout: LayoutId) -> Option<Bytes> {
        self.of_layouts.as_ref()?.get(layout as usize).copied()
    }

    /// Returns the size of a tensor in the buffer requested for it.
    #[inline]
    pub fn of_tensor(&self, tensor: TensorId) -> Option<Bytes> {
        self.of_tensors.as_ref()?.get(tensor as usize).copied()
    }
}

/// Layouts are numbered in order of their first use, so a new one has the next number.
fn add_if_new(runtime: &Runtime, sizes: &mut Vec<Bytes>, layout: LayoutId, tensor: TensorRef<'_>) {
    if layout as usize == sizes.len() {
        sizes.push(runtime.nbytes(tensor));
    }
}
