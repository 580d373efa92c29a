//! Reads captured graphs: the format "lastuse-graph", version 1, which [`lastuse::formats::graph_file`] writes.

mod read;
#[cfg(test)]
mod compressed_tests;
#[cfg(test)]
mod tests;

pub use read::{open_graph, read_graph};
