//! What belongs to the process: its settings, its ggmls, and which code serves each of them.

pub mod current;
pub mod settings;
pub mod reached;
pub mod ggml;
pub mod decide;
pub mod registry;
pub mod enabled;
pub mod handed;
pub mod original_events;
