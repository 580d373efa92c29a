//! Why there is no offload.

use std::error::Error;
use std::fmt;

use crate::graph::TensorId;

use super::backends::{BackendIndex, BufferTypeIndex, MAX_BACKENDS};

/// Why a rule cannot place a graph. Tensors are given by their labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OffloadError {
    /// There are no backends.
    NoBackends,
    /// There are more backends than a scheduler takes.
    TooManyBackends {
        /// Their number.
        count: usize,
    },
    /// A buffer type is not in the list.
    UnknownBufferType {
        /// The backend or tensor that refers to it.
        of: String,
        /// The position that was given.
        buffer_type: BufferTypeIndex,
        /// The number of buffer types.
        count: usize,
    },
    /// The list of memory is not one entry for each tensor.
    WrongLength {
        /// The number of tensors.
        tensors: usize,
        /// The number of entries.
        memory: usize,
    },
    /// A tensor that is never planned has no buffer.
    UnknownMemory {
        /// The tensor.
        tensor: String,
    },
    /// The program assigned a tensor or a backend that does not exist.
    UnknownAssignment {
        /// The tensor.
        tensor: TensorId,
        /// The backend.
        backend: BackendIndex,
        /// The number of tensors.
        tensors: usize,
        /// The number of backends.
        count: usize,
    },
    /// The number of pipeline copies is 0, or the current copy is not one of them.
    InvalidCopies {
        /// The number of copies.
        copies: u32,
        /// The current copy.
        current: u32,
    },
    /// A backend cannot use the type of its own compute buffer.
    OwnBufferType {
        /// The backend.
        backend: String,
        /// The buffer type.
        buffer_type: String,
    },
    /// A tensor has memory that no backend with its operation can use.
    CannotRunInPlace {
        /// The tensor.
        tensor: String,
        /// The type of the buffer that it is in.
        buffer_type: String,
    },
    /// No backend supports the operation of a node.
    Unsupported {
        /// The node.
        tensor: String,
    },
    /// A tensor without memory is used by no operation, so it gets no backend.
    Unassigned {
        /// The tensor.
        tensor: String,
    },
    /// A split has more inputs than this version of ggml can take.
    TooManyInputs {
        /// The node that needs one more.
        tensor: String,
        /// The most inputs of a split.
        limit: usize,
    },
    /// A backend changed which nodes a split has, instead of their order.
    NotReordered {
        /// The backend.
        backend: String,
    },
}

impl fmt::Display for OffloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBackends => write!(f, "there are no backends: a graph needs at least the CPU"),
            Self::TooManyBackends { count } => {
                write!(f, "there are {count} backends: a scheduler takes {MAX_BACKENDS} at most")
            }
            Self::UnknownBufferType { of, buffer_type, count } => {
                write!(f, "{of} refers to buffer type {buffer_type}: there are {count}, counted from 0")
            }
            Self::WrongLength { tensors, memory } => {
                write!(f, "the list of memory has {memory} entries for {tensors} tensors: it needs one for each")
            }
            Self::UnknownMemory { tensor } => {
                write!(f, "{tensor} has memory that is never planned: state the buffer type that it is in")
            }
            Self::UnknownAssignment { tensor, backend, tensors, count } => write!(
                f,
                "tensor {tensor} is assigned to backend {backend}: there are {tensors} tensors and {count} backends, \
                 counted from 0"
            ),
            Self::InvalidCopies { copies, current } => {
                write!(f, "copy {current} of {copies} cannot be the current one: copies are counted from 0")
            }
            Self::OwnBufferType { backend, buffer_type } => write!(
                f,
                "backend {backend:?} cannot use {buffer_type:?}, the type of its own compute buffer: ggml's scheduler \
                 refuses that"
            ),
            Self::CannotRunInPlace { tensor, buffer_type } => write!(
                f,
                "{tensor} is in a buffer of type {buffer_type:?}, and no backend that can use that memory supports its \
                 operation: ggml's scheduler aborts; place it in memory of another backend"
            ),
            Self::Unsupported { tensor } => {
                write!(f, "no backend supports {tensor}: ggml's scheduler aborts; add the CPU as the last backend")
            }
            Self::Unassigned { tensor } => write!(
                f,
                "{tensor} has neither memory nor a node that uses it, so that no backend follows for it: assign it to \
                 one, or leave it out of the graph"
            ),
            Self::TooManyInputs { tensor, limit } => write!(
                f,
                "{tensor} needs an input beyond the {limit} that a split can have in this version of ggml, which aborts: \
                 place the weights that its split reads on fewer backends, or use a later version"
            ),
            Self::NotReordered { backend } => {
                write!(
                    f,
                    "backend {backend:?} must keep the nodes of a split when it optimizes: only their order may change"
                )
            }
        }
    }
}

impl Error for OffloadError {}
