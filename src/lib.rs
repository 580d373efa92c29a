//! **lastuse**: a drop-in replacement for ggml's graph memory allocator.
//!
//! Layers, each using only those above it: [`placement`] (bytes and time), [`graph`] (a computation graph as plain
//! data), [`ggml`] (ggml's types and functions), [`abi`] (what C calls), [`report`] (plain data out).

pub mod abi;
#[cfg(all(test, any(feature = "header", feature = "bindings")))]
mod drift;
pub mod ggml;
#[forbid(unsafe_code)]
pub mod graph;
#[forbid(unsafe_code)]
pub mod placement;
#[cfg(feature = "cli")]
#[forbid(unsafe_code)]
pub mod report;
#[cfg(test)]
mod testing;
