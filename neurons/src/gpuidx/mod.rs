//! Files named `*.gpuidx`: which neurons of each layer are on the GPU, for PowerInfer.
//!
//! The layout is that of [GGUF](crate::gguf) in one of two [dialects](Dialect), with three keys and two tensors per
//! layer:
//!
//! - `blk.N.gpu_idx`: a number for each neuron, 1 if it is on the GPU, or else 0
//! - `blk.N.gpu_bucket`: the ids of the neurons on the GPU, strictly ascending
//!
//! PowerInfer's loader trusts the file. [`GpuIndex::read`] checks every [`IndexRule`].
//!
//! - `rule`: what must hold, and defects
//! - `layout`: the keys, and the tensors with their positions
//! - `read`, `write`

mod rule;
mod layout;
mod read;
mod write;
#[cfg(test)]
mod tests;

use crate::gguf::DEFAULT_ALIGNMENT;

pub use rule::{IndexDefect, IndexRule, MalformedIndex};

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuIndex {
    /// The layers, in their order.
    pub layers: Vec<LayerIndex>,
    /// The bytes of memory that were allowed for the neurons: the whole allowance, not the bytes that they take.
    pub vram_capacity: u64,
}

/// The neurons of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerIndex {
    /// How many neurons the layer has.
    pub neurons: u32,
    /// The ids of those on the GPU, strictly ascending and below `neurons`.
    pub bucket: Vec<u32>,
}

/// Facts about the model that a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct KnownModel {
    /// The number of its layers.
    pub layers: Option<u64>,
    /// The number of neurons in each layer.
    pub neurons: Option<u64>,
    /// The bytes of memory that are left for neurons. PowerInfer refuses files that allow more.
    pub vram_left: Option<u64>,
}

/// Which program a file is for. The dialects differ in the first four bytes and in the number of the element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Dialect {
    /// PowerInfer's own.
    #[default]
    PowerInfer,
    /// GGUF as today's ggml reads it.
    Gguf,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 2] = [Self::PowerInfer, Self::Gguf];

    /// Returns the first four bytes of files.
    pub fn magic(self) -> [u8; 4] {
        match self {
            Self::PowerInfer => *b"PWRI",
            Self::Gguf => *b"GGUF",
        }
    }

    /// Returns the number of the element type of 32-bit signed integers.
    pub fn i32_type(self) -> u32 {
        match self {
            Self::PowerInfer => 18,
            Self::Gguf => 26,
        }
    }
}

/// Returns the bytes of a tensor with the zeros behind it, or `None` if they overflow.
fn padded_bytes(elements: u64) -> Option<u64> {
    elements.checked_mul(size_of::<i32>() as u64)?.checked_next_multiple_of(DEFAULT_ALIGNMENT)
}
