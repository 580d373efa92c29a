//! Features beyond `ggml-alloc.h`: measuring without a backend, dependencies between nodes, reordering, recomputation,
//! removal of copies, accounting.

pub mod dependency;
pub mod dump;
pub mod accounting;
pub mod compute_buffer;
pub mod budget;
pub mod reorder;
pub mod recompute;
pub mod copies;
pub mod split;
