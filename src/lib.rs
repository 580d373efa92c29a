//! **lastuse**: a drop-in replacement for ggml's graph memory allocator.
//!
//! Layers, each using only those above it: [`placement`] (bytes and time), [`graph`] (a computation graph as plain
//! data), [`report`] (plain data out), [`ggml`] (ggml's types and functions), [`abi`] (what C calls).

pub mod abi;
#[cfg(all(test, any(feature = "header", feature = "bindings")))]
mod drift;
pub mod ggml;
#[forbid(unsafe_code)]
pub mod graph;
#[forbid(unsafe_code)]
pub mod placement;
#[forbid(unsafe_code)]
pub mod report;
#[cfg(test)]
mod testing;
