//! Why an allocator refuses a request, or does not follow one.

use std::fmt;

use crate::ggml::outputs::check::OutputError;
use crate::placement::Bytes;

/// Why an allocator refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The graph differs from the reserved one, and with several buffers only a reservation states which tensor goes
    /// where.
    NeedsReserve,
    /// There is not enough memory for this buffer.
    NoMemory {
        /// The name of the buffer type.
        buffer: String,
        /// Bytes that the plan requires in it.
        size: Bytes,
    },
    /// A tensor is larger than the largest buffer of its type, and the device has refused it.
    TooLarge {
        /// The name of the tensor.
        tensor: String,
        /// Bytes that it takes.
        size: Bytes,
        /// The name of the buffer type.
        buffer: String,
        /// Bytes of the largest buffer.
        limit: Bytes,
    },
    /// The tensors of a context could not be allocated, which was logged.
    ContextFailed {
        /// The name of the buffer type.
        buffer: String,
    },
    /// A tensor is allocated in the buffer type of its context, but the graph expects it in another.
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
    /// The graph has no room for the parts of intermediates that it shares with another graph, which was cut.
    NoRoom {
        /// The nodes that it has room for.
        capacity: usize,
        /// The nodes that it would have.
        needed: usize,
    },
    /// A result cannot be computed in the memory that it was redirected to.
    Output(OutputError),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedsReserve => write!(f, "the graph differs from the reserved one: reserve it first"),
            Self::NoMemory { buffer, size } => write!(f, "failed to allocate {buffer} buffer of size {size}"),
            Self::TooLarge { tensor, size, buffer, limit } => write!(
                f,
                "the device has refused tensor {tensor}, which takes {size} bytes: the largest {buffer} buffer has {limit}"
            ),
            Self::ContextFailed { buffer } => {
                write!(f, "the tensors of the context could not be allocated in {buffer}: ggml's log has the reason")
            }
            Self::NotRealized { tensor, buffer } => write!(
                f,
                "the context of tensor {tensor} allocates it in {buffer}, but the graph expects it elsewhere: call \
                 lastuse_context_realize before the graph is passed to a scheduler"
            ),
            Self::ListedTwice => write!(f, "the graph lists a tensor twice, but the reserved graph did not"),
            Self::NoRoom { capacity, needed } => write!(
                f,
                "the graph shares tensors with another one that LASTUSE_BUDGET has cut, and has room for {capacity} nodes \
                 of {needed}: create it with ggml_new_graph_custom and at least that size, or unset LASTUSE_BUDGET"
            ),
            Self::Output(broken) => broken.fmt(f),
            Self::InitFailed { tensor } => write!(f, "failed to initialize tensor {tensor}"),
        }
    }
}

/// Why a graph cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotMeasured {
    /// The tensors need more bytes than can be addressed.
    TooLarge {
        /// The name of the buffer type.
        buffer: String,
        /// The sum; saturated.
        size: Bytes,
    },
    /// An allocator would refuse it, however much memory is free.
    Refused(Refusal),
    /// ggml's own allocator is in use, and has no function that measures.
    NoSizeFunction,
    /// ggml's own allocator is in use, and would count pending tensors, which their contexts allocate.
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
                "ggml's own allocator does the work, and it would count tensors that their contexts have yet to \
                 allocate: call lastuse_context_realize first"
            ),
            Self::NoSizeFunction => write!(
                f,
                "ggml's own allocator does the work, and this version of it cannot measure: it has no \
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

/// Why a call about a retained tensor has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRetained {
    /// The tensor that is to end the retention is computed by no operation.
    NoNode {
        /// Its name.
        tensor: String,
    },
    /// Only parts of the tensor are computed.
    Tiled {
        /// Its name.
        tensor: String,
    },
    /// The tensor to release is not registered.
    NotRegistered {
        /// Its name.
        tensor: String,
    },
}

impl fmt::Display for NotRetained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNode { tensor } => write!(
                f,
                "node {tensor:?} is computed by no operation, so it never runs: pass a node of the graph, or call \
                 lastuse_tensor_retain"
            ),
            Self::Tiled { tensor } => write!(
                f,
                "only tiles of {tensor:?} are computed since its graph was changed by lastuse_graph_tile: retain it before"
            ),
            Self::NotRegistered { tensor } => write!(
                f,
                "{tensor:?} is not retained by lastuse_tensor_retain on this allocator; \
                 names are released by lastuse_set(\"retain\", ...)"
            ),
        }
    }
}
