//! What tensors take, asked for while they are at hand.

use crate::graph::{Graph, LayoutId, TensorId};
use crate::placement::Bytes;

use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::read::requested::Requested;

/// Most graphs have fewer distinct layouts.
const FEW_LAYOUTS: usize = 32;

/// Sizes of the tensors of a graph, as far as they were asked for.
#[derive(Debug)]
pub struct KnownSizes {
    /// By layout, bytes from the first to the last element; `None` where no type goes by layouts.
    of_layouts: Option<Vec<Bytes>>,
    /// By id, of listed tensors that need memory: what the buffer wanted for it takes, and 0 for the others. `None` where
    /// all types go by layouts, and where a tensor is listed twice.
    of_tensors: Option<Vec<Bytes>>,
}

impl KnownSizes {
    /// None yet, of `listed` tensors that are to get memory in `types`; 0 where one is listed twice.
    pub fn new(types: &[BufferType], listed: usize) -> Self {
        let is_by_layout = |buffer_type: &BufferType| buffer_type.goes_by_layout();
        Self {
            of_layouts: types.iter().any(is_by_layout).then(|| Vec::with_capacity(FEW_LAYOUTS)),
            of_tensors: (listed > 0 && !types.iter().all(is_by_layout)).then(|| Vec::with_capacity(listed)),
        }
    }

    /// Adds new layouts among those of `tensors`, which are the latest in `plain`.
    #[inline]
    pub fn add_layouts(&mut self, runtime: &Runtime, plain: &Graph, tensors: &[TensorRef<'_>]) {
        if let Some(sizes) = &mut self.of_layouts
            && sizes.len() < plain.distinct_layouts()
        {
            let latest = plain.layout_ids();
            for (&layout, &tensor) in latest[latest.len() - tensors.len()..].iter().zip(tensors) {
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

    /// Asks for the sizes of `tensors`, which are the latest in `plain`, where they need memory in types that do not go
    /// by layouts.
    #[inline]
    pub fn add_tensors(
        &mut self,
        types: &[BufferType],
        requested: &Requested,
        plain: &Graph,
        tensors: &[TensorRef<'_>],
    ) {
        let Some(sizes) = &mut self.of_tensors else { return };
        let first = sizes.len();
        let plain = plain.tensors()[first..].iter().zip(tensors);
        sizes.extend((first..).zip(plain).map(|(position, (plain, &tensor))| {
            let buffer_type = types[requested.buffer(position) as usize];
            if plain.is_owned() && !buffer_type.goes_by_layout() { buffer_type.alloc_size(tensor) } else { 0 }
        }));
    }

    /// Those of all layouts, by layout, when there are so many.
    pub fn of_all_layouts(&self, count: usize) -> Option<&[Bytes]> {
        self.of_layouts.as_deref().filter(|sizes| sizes.len() == count)
    }

    /// That of a layout.
    #[inline]
    pub fn of_layout(&self, layout: LayoutId) -> Option<Bytes> {
        self.of_layouts.as_ref()?.get(layout as usize).copied()
    }

    /// That of a tensor in the buffer that was wanted for it.
    #[inline]
    pub fn of_tensor(&self, tensor: TensorId) -> Option<Bytes> {
        self.of_tensors.as_ref()?.get(tensor as usize).copied()
    }
}

/// Layouts are numbered in the order in which they are met.
fn add_if_new(runtime: &Runtime, sizes: &mut Vec<Bytes>, layout: LayoutId, tensor: TensorRef<'_>) {
    if layout as usize == sizes.len() {
        sizes.push(runtime.nbytes(tensor));
    }
}
