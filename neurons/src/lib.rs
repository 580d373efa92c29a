//! Which neurons of a model belong on a GPU, for PowerInfer: behind `lastuse neurons` and `lastuse offload --hotness`.
//! The layout of model files serves `lastuse offload --model` too.
//!
//! The library of lastuse does not know this crate, and this crate does not know the library: plain data and bytes of
//! files in and out. `docs/internals/neurons.md` has the arguments, and describes the files.
//!
//! Each part uses only those above it in this list:
//!
//! - [`division`]: the neurons of each layer that are on the GPU
//! - `malformed`: defects of a file
//! - [`gguf`]: the layout of model files
//! - [`gpuidx`]: the file that PowerInfer loads
//! - `elements`: elements of arrays by type
//! - [`npy`]: arrays of NumPy
//! - [`torch`]: tensors of torch
//! - [`hotness`]: hotness of neurons from files of these formats
//! - [`report`]: a division, and the check of a file, as text and as JSON

#![forbid(unsafe_code)]

pub mod division;
mod malformed;
pub mod gguf;
pub mod gpuidx;
mod elements;
pub mod npy;
pub mod torch;
pub mod hotness;
pub mod report;
#[cfg(test)]
#[path = "../../src/testing.rs"]
mod testing;

pub use malformed::{Malformed, Unreadable};

/// A number of bytes.
pub type Bytes = u64;
