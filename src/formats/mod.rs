//! Files that the library writes, without a library of others: captured graphs, JSON, arrays.
//!
//! Uses [`crate::graph`]. The crate of the tool reads them.
//!
//! - [`json`]: objects and lists of JSON
//! - [`graph_file`]: captured graphs, "lastuse-graph"
//! - [`npy`]: arrays of NumPy, for the values of tensors

pub mod json;
pub mod graph_file;
pub mod npy;
