//! State of the process: its settings, its ggmls, and the code that serves each of them.
//!
//! [`settings`] holds what new allocators start with, and [`current`] the ggml that messages of the current call go to.
//! [`registry`] finds the ggmls of the process; for each, [`decide`] creates a [`ggml::Ggml`], which is served by
//! lastuse or by its own allocator. [`reached`] and [`enabled`] check whether calls arrive at lastuse and are served by
//! it, and [`at_end`] reports why not. [`forwarding`] and [`original_events`] forward calls to ggml's own allocators and report on those.

pub mod current;
pub mod settings;
pub mod reached;
pub mod ggml;
pub mod decide;
pub mod registry;
pub mod enabled;
pub mod forwarding;
pub mod at_end;
pub mod original_events;
