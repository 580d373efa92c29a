//! The compute buffer that a graph is changed for, before there is one.

use crate::graph::{BufferIndex, BufferSpec, Rules, Sizes, TensorId};
use crate::placement::Bytes;

use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::process::settings::settings;

/// The alignment assumed for an unknown buffer type: ggml's CPU buffer type requires no more.
const UNKNOWN_ALIGNMENT: Bytes = 32;

/// A future compute buffer that has all tensors of a graph.
#[derive(Clone, Copy, Debug)]
pub struct ComputeBuffer {
    runtime: &'static Runtime,
    /// If known.
    buffer_type: Option<BufferType>,
}

impl ComputeBuffer {
    /// Of a buffer type, if it is known.
    pub fn new(runtime: &'static Runtime, buffer_type: Option<BufferType>) -> Self {
        Self { runtime, buffer_type }
    }

    /// Returns its buffer types, for [`read`](crate::ggml::read::read).
    pub fn types(self) -> Vec<BufferType> {
        self.buffer_type.into_iter().collect()
    }

    /// Returns the alignment of tensors, in bytes.
    pub fn alignment(self) -> Bytes {
        self.buffer_type.map_or(UNKNOWN_ALIGNMENT, BufferType::alignment)
    }

    /// Returns how it is planned with the settings of the process, in an allocator that the program uses itself.
    pub fn spec(self) -> BufferSpec {
        let settings = settings();
        let rules = Rules { keep_inputs: true, ..Rules::ALL };
        let unknown = BufferSpec { alignment: UNKNOWN_ALIGNMENT, max_chunk: None, rules, effort: settings.effort };
        let rules = settings.rules.for_direct_use();
        self.buffer_type.map_or(unknown, |buffer_type| buffer_type.spec(&rules, settings.effort))
    }

    /// Returns the sizes of tensors in it, by id.
    pub fn sizes<'a>(self, tensors: &'a [TensorRef<'_>]) -> impl Sizes + 'a {
        move |id: TensorId, _: BufferIndex| {
            let tensor = tensors[id as usize];
            self.buffer_type.map_or_else(|| self.runtime.nbytes(tensor), |it| it.alloc_size(tensor))
        }
    }
}
