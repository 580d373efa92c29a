//! What an allocator refuses, and why.

use std::fmt;

use crate::ggml::outputs::BrokenOutput;
use crate::placement::Bytes;

/// Why the allocator could not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The graph is not the one that was reserved, and with several buffers nobody says which tensor goes where.
    NeedsReserve,
    /// There is not enough memory for this buffer.
    NoMemory {
        /// The name of the buffer type.
        buffer: String,
        /// Bytes that the plan needs in it.
        size: Bytes,
    },
    /// A tensor is to get its memory in the buffer type of its context, and the graph expects it in another.
    NotRealized {
        /// The name of the tensor.
        tensor: String,
        /// The name of the buffer type of its context.
        buffer: String,
    },
    /// The graph lists a tensor twice where the planned one has two tensors.
    ListedTwice,
    /// The backend could not initialize this tensor.
    InitFailed {
        /// The name of the tensor.
        tensor: String,
    },
    /// A result cannot be in the memory that it was redirected to.
    Output(BrokenOutput),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedsReserve => write!(f, "the graph differs from the reserved one: reserve it first"),
            Self::NoMemory { buffer, size } => write!(f, "failed to allocate {buffer} buffer of size {size}"),
            Self::NotRealized { tensor, buffer } => write!(
                f,
                "the context of tensor {tensor} gives it memory in {buffer}, and the graph expects it elsewhere: call \
                 lastuse_context_realize before the graph goes to a scheduler"
            ),
            Self::ListedTwice => write!(f, "the graph lists a tensor twice, and the reserved graph did not"),
            Self::Output(broken) => broken.fmt(f),
            Self::InitFailed { tensor } => write!(f, "failed to initialize tensor {tensor}"),
        }
    }
}
