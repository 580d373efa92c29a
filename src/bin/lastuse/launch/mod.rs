//! Programs that run with lastuse in place of their ggml-alloc: what `run` and `compare` share.

mod child;
mod events;
mod failure;
mod launcher;
mod library;
mod program;

pub use child::Exit;
pub use events::{DumpTotals, Events};
pub use failure::{FAILED, NotStarted};
pub use launcher::{Allocator, Launcher, Target};
