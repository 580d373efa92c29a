//! Programs that run with lastuse in place of their ggml-alloc: what `run` and `compare` share.

mod child;
mod events;
mod failure;
mod find;
mod launcher;
mod library;
mod not_executed;
pub mod program;
mod survivors;

pub use child::Exit;
pub use events::{DumpTotals, Events};
pub use failure::{FAILED, NOT_FOUND, NotStarted};
pub use launcher::{Allocator, Launcher, Target};
