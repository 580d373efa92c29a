//! Why tensors are not placed on devices.

use std::fmt;

use crate::offload::planner::NotPlaced;

/// Why tensors are not placed.
#[derive(Clone, Debug, PartialEq)]
pub enum OffloadFailure {
    /// There are neither graphs nor a function that measures.
    NothingToMeasure,
    /// There are both graphs and a function that measures.
    MeasuredTwice,
    /// An item is a view.
    ItemIsView {
        /// The item.
        item: String,
        /// The tensor that it is a view of.
        root: String,
    },
    /// A tensor of a graph has memory of a type that no device has.
    UnknownMemory {
        /// The tensor.
        tensor: String,
        /// ggml's name of the buffer type.
        buffer_type: String,
    },
    /// A rule cannot place the intermediates of a graph.
    Graph {
        /// Which graph, from 0.
        graph: usize,
        /// Why.
        why: String,
    },
    /// Nothing has been placed yet.
    NotSolved,
    /// A scheduler has another number of backends than there are devices.
    SchedulerBackends {
        /// The backends of the scheduler.
        backends: usize,
        /// The devices.
        devices: usize,
    },
    /// The rule keeps results where no scheduler does.
    NotSchedulable,
    /// This ggml has no scheduler.
    NoScheduler,
    /// The planner found no offload.
    NotPlaced(NotPlaced),
}

impl fmt::Display for OffloadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToMeasure => write!(
                f,
                "there is no graph and no function that measures: add a graph, or set measure in the parameters"
            ),
            Self::MeasuredTwice => write!(f, "there are both graphs and a function that measures; use one of them"),
            Self::ItemIsView { item, root } => {
                write!(f, "{item:?} is a view, which is where its root is: add {root:?} instead")
            }
            Self::UnknownMemory { tensor, buffer_type } => write!(
                f,
                "{tensor:?} is in a buffer of type {buffer_type}, which no device has: add it as an item, or a device \
                 with this buffer type"
            ),
            Self::Graph { graph, why } => write!(f, "graph {graph} cannot be placed: {why}"),
            Self::NotSolved => write!(f, "nothing has been placed yet: call lastuse_offload_solve first"),
            Self::SchedulerBackends { backends, devices } => write!(
                f,
                "the scheduler has {backends} backends and there are {devices} devices: add one device for each \
                 backend, in the order of the scheduler"
            ),
            Self::NotSchedulable => write!(
                f,
                "PowerInfer's rule keeps results where ggml's scheduler does not; place with another rule, or compute \
                 the graph without a scheduler"
            ),
            Self::NoScheduler => write!(f, "this ggml has no ggml_backend_sched_set_tensor_backend"),
            Self::NotPlaced(why) => why.fmt(f),
        }
    }
}

impl From<NotPlaced> for OffloadFailure {
    fn from(why: NotPlaced) -> Self {
        Self::NotPlaced(why)
    }
}
