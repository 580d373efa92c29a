//! lastuse gets into programs in every supported way, and serves the ggml that it finds.

mod drop_in;
mod guard_preload;
mod packages;
mod rust;
#[path = "../support/mod.rs"]
mod support;
mod two_ggmls;
