//! Contexts that need no size: genuine ggml contexts in reserved address space, of which only what is used takes
//! memory.
//!
//! The way of a context: `default_size` (how much address space?) -> `address_space` -> `ggml_init` -> `registry`
//! (is this one of ours, and alive?). Those that name a buffer type give their tensors memory of it: `realize` finds
//! the tensors that wait, `chunks` holds the buffers, `waiting` finds the contexts that a graph reads.

mod address_space;
mod default_size;
pub mod allocate;
mod chunks;
mod live;
mod realize;
mod registry;
mod waiting;

pub use address_space::NoAddressSpace;
pub use live::{Kind, Wanted};
pub use registry::{NotAlive, NotRealized, free_context, is_freed, new_context, realize_context};
pub use waiting::{GrowingContexts, Waiting};
