//! Properties of every file that lastuse reads, whatever its bytes are.
//!
//! Each function takes the bytes of a file, returns when they are handled correctly, and panics otherwise. `tests/`
//! tries them with the committed corpus and with inputs made from it.

mod csv;
mod gguf;
mod graph;
mod memory;
mod mutate;
mod npy;
mod pair;
mod plan;
mod torch;

pub use csv::csv;
pub use gguf::{gguf, gpuidx};
pub use graph::graph;
pub use memory::{Counting, in_proportion};
pub use mutate::{Random, mutated};
pub use npy::npy;
pub use pair::pair;
pub use plan::plan;
pub use torch::torch;
