//! Accounting of live buffers and graphs: what ggml says of them becomes plain data, [`crate::accounting`].
//!
//! - `describe`: one buffer, its device, one tensor
//! - `graph`: the tensors of a planned graph, when they are needed, and their places
//! - `destination`: the file
//! - `recorder`: records everything that the process does, and writes the file at its end
//! - `live`: writes what is held now, again and again

mod describe;
mod graph;
mod destination;
mod recorder;
mod live;

pub use graph::GraphDraft;
pub use live::set_live_file;
pub use recorder::recorder;
