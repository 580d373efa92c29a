//! The layout of GGUF, version 3: keys with typed values, names and extents of tensors, their data.
//!
//! Only headers are read, never data, so a file of many gigabytes takes the memory of its header. Every length is
//! checked against the rest of the file before memory is allocated for it.
//!
//! - `input`: reading with checked bounds
//! - `value`: values and their types
//! - `types`: the element types of tensors: the bytes of rows
//! - `header`: [`GgufHeader`], and its writing
//! - `model`: the tensors of a model in one file or in several

mod header;
mod input;
mod types;
mod value;
mod model;
#[cfg(test)]
mod tests;

pub use header::{DEFAULT_ALIGNMENT, GgufHeader, GgufTensor, MAX_HEADER, VERSION, pad};
pub use model::{ModelTensor, read_model};
pub use types::TensorType;
pub use value::{GgufArray, GgufValue, ValueType};
