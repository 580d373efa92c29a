//! Why an allocator refuses a request.

use std::fmt;

use crate::ggml::outputs::check::BrokenOutput;
use crate::placement::Bytes;

/// Why an allocator refuses a request.
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

/// Why a graph cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotMeasured {
    /// More bytes than can be addressed.
    TooLarge {
        /// The name of the buffer type.
        buffer: String,
        /// The sum, or the largest number there is.
        size: Bytes,
    },
    /// No memory would be enough for it.
    Refused(Refusal),
    /// ggml's own allocator does the work, and has no function that measures.
    OriginalCannotTell,
    /// ggml's own allocator does the work, and would count tensors that are to get their memory from their contexts.
    NotRealized,
}

impl fmt::Display for NotMeasured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { buffer, size } => {
                write!(f, "the tensors in {buffer} add up to {size} bytes, more than can be addressed")
            }
            Self::Refused(refusal) => refusal.fmt(f),
            Self::NotRealized => write!(
                f,
                "ggml's own allocator does the work, and it would count tensors that wait for memory from their contexts: \
                 call lastuse_context_realize first"
            ),
            Self::OriginalCannotTell => write!(
                f,
                "ggml's own allocator does the work, and in this version it cannot tell sizes: it has no \
                 ggml_gallocr_reserve_n_size"
            ),
        }
    }
}

impl From<Refusal> for NotMeasured {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoMemory { buffer, size } => Self::TooLarge { buffer, size },
            other => Self::Refused(other),
        }
    }
}
