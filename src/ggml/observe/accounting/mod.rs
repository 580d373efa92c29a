//! Accounting of live buffers and graphs: what ggml says of them becomes plain data, [`crate::offload::accounting`].
//!
//! - `describe`: one buffer
//! - `books`: a ledger, with the devices that it has
//! - `walk`: the tensors of a graph, with their steps and uses
//! - `draft`: the tensors of a graph, with their places
//! - `destination`: the file
//! - `recorder`: records everything that the process does, and writes the file at its end

mod describe;
mod walk;
mod draft;
mod books;
mod destination;
mod recorder;

pub use books::Books;
pub use describe::DescribedBuffer;
pub use destination::write_accounting;
pub use draft::{GraphDraft, content};
pub use recorder::recorder;
