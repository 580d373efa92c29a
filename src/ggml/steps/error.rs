//! Why a graph cannot be computed in steps.

use std::fmt;

use crate::ggml::outputs::check::OutputError;
use crate::ggml::refusal::Refusal;
use crate::graph::PlanError;
use crate::graph::steps::CutError;
use crate::placement::Bytes;

/// Why a graph cannot be computed in steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepsError {
    /// The graph cannot be cut in this way.
    Cut(CutError),
    /// A node at which the graph is to be cut makes no cut.
    CutAt {
        /// Why not.
        why: CutError,
        /// The name of the node.
        node: String,
    },
    /// A tensor at which the graph is to be cut is not a node of it.
    NotInGraph {
        /// The position of the cut among the cuts.
        cut: usize,
        /// The name of the tensor.
        tensor: String,
    },
    /// The tensors add up to more than can be addressed.
    TooLarge(PlanError),
    /// A result cannot be computed in the memory that it was redirected to.
    Output(OutputError),
    /// A context cannot allocate its tensors.
    NotRealized(Refusal),
    /// A tensor of the graph was placed by an allocator.
    AlreadyAllocated {
        /// The name of the tensor.
        tensor: String,
    },
    /// This ggml has no functions to compute a part of a graph.
    Unsupported,
    /// There is not enough memory.
    NoMemory {
        /// The name of the buffer type.
        buffer: String,
        /// Bytes that were requested.
        size: Bytes,
    },
    /// The backend could not initialize a tensor.
    InitFailed {
        /// The name of the tensor.
        tensor: String,
    },
    /// The scheduler cannot allocate a part.
    NotScheduled {
        /// The part.
        step: usize,
    },
    /// The backend returned this status of ggml, not success.
    Status {
        /// The part.
        step: usize,
        /// The status.
        status: i32,
    },
    /// The callback returned false after a part.
    Stopped {
        /// The part.
        step: usize,
    },
    /// The call comes from a callback of another one that computes the graph.
    InUse,
}

impl fmt::Display for StepsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut(why) => why.fmt(f),
            Self::CutAt { why, node } => write!(f, "{why} (it is at \"{node}\")"),
            Self::NotInGraph { cut, tensor } => {
                write!(f, "cut {cut} is at \"{tensor}\", which is not a node of the graph")
            }
            Self::TooLarge(why) => why.fmt(f),
            Self::Output(broken) => broken.fmt(f),
            Self::NotRealized(refusal) => refusal.fmt(f),
            Self::AlreadyAllocated { tensor } => write!(
                f,
                "\"{tensor}\" lies in a compute buffer already: the graph was allocated before; build it anew"
            ),
            Self::Unsupported => write!(f, "this ggml cannot compute a part of a graph"),
            Self::NoMemory { buffer, size } => write!(f, "failed to allocate {buffer} buffer of size {size}"),
            Self::InitFailed { tensor } => write!(f, "failed to initialize tensor {tensor}"),
            Self::NotScheduled { step } => write!(f, "the scheduler cannot allocate step {step}"),
            Self::Status { step, status } => write!(f, "step {step}: the backend returned status {status}"),
            Self::InUse => write!(f, "steps is computed by the call that has called this function's caller"),
            Self::Stopped { step } => write!(f, "the callback returned false after step {step}"),
        }
    }
}

impl From<PlanError> for StepsError {
    fn from(why: PlanError) -> Self {
        Self::TooLarge(why)
    }
}
