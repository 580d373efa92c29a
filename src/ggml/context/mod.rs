//! Contexts that need no size: genuine ggml contexts in reserved address space, which takes memory only where it is
//! used.
//!
//! A new context gets a range of addresses (`address_space`, as long as `default_size` chooses) and is created in it
//! (`live_context`); `registry` knows all live ones. A context may name a buffer type, which then holds the data of its
//! tensors: `realize` finds the pending tensors, those still without memory, and `chunks` holds the buffers. `pending`
//! finds the contexts whose pending tensors a graph reads. [`allocate`] is ggml's own way: all tensors of any context,
//! in one call; `on_demand` has their memory taken when it is written.

mod address_space;
mod default_size;
mod on_demand;
pub mod allocate;
mod chunks;
mod realize;
mod live_context;
mod registry;
mod pending;

pub use live_context::{ContextMode, ContextOptions};
pub use pending::{BackedContexts, PendingTensors};
pub use registry::{NotLive, NotRealized, free_context, is_freed, new_context, realize_context};
