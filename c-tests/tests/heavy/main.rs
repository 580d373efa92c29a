//! Tests that take minutes, or build ggml or llama.cpp in other ways, or need valgrind, clang, Python or Node: `cargo
//! heavy-tests`.

mod binding;
mod injected;
mod installed;
mod large_graphs;
mod low_addresses;
mod measured_answers;
mod node;
mod placed_devices;
mod read_layouts;
#[path = "../support/mod.rs"]
mod support;
mod tiling_kernels;
mod uninitialized;
mod written_layouts;
