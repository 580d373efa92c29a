//! State of the process: its settings, its ggmls, and the code that serves each of them.
//!
//! [`settings`] holds what new allocators start with.
//! [`registry`] finds the ggmls of the process; for each, [`ggml`] decides whether lastuse serves it or its own
//! allocator. [`reached`] and [`enabled`] check whether calls arrive at lastuse and are served by it. [`forwarding`] and [`original_events`] forward calls to ggml's own allocators and report on those.

pub mod settings;
pub mod reached;
pub mod ggml;
pub mod registry;
pub mod forwarding;
pub mod enabled;
pub mod original_events;
