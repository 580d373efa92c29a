//! Features beyond `ggml-alloc.h`: dependencies between nodes, reordering, recomputation, computing in tiles,
//! removal of copies.

pub mod dependency;
pub mod dump;
pub mod pass;
pub mod apply;
pub mod reorder;
pub mod recompute;
pub mod copies;
pub mod tiling;
