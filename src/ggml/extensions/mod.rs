//! What lastuse offers beyond `ggml-alloc.h`: measuring without a backend, removal of copies, reordering, dependencies.

pub mod copies;
pub mod dependency;
pub mod measure;
pub mod reorder;
