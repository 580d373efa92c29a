//! **lastuse**: a drop-in replacement for ggml's graph memory allocator.
//!
//! Layers, each using only those above it in this list:
//!
//! - [`placement`]: blocks in bytes and time, and where each lies
//! - [`graph`]: computation graphs as plain data; live ranges, plans, passes over a graph
//! - [`formats`]: files of graphs, plans and placement problems
//! - [`report`]: tables, pictures and explanations for people, JSON for programs
//! - [`ggml`]: ggml's types and functions, and the allocator that uses them
//! - [`abi`]: the functions that C calls

#[forbid(unsafe_code)]
pub mod placement;
#[forbid(unsafe_code)]
pub mod graph;
#[forbid(unsafe_code)]
pub mod formats;
#[forbid(unsafe_code)]
pub mod report;
pub mod ggml;
pub mod abi;
#[cfg(all(test, any(feature = "header", feature = "bindings")))]
mod drift;
#[cfg(test)]
mod testing;
