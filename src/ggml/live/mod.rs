//! Access to the live tensors, graphs and buffers of a ggml.
//!
//! [`probe`] checks that the structs of a ggml have the layout that lastuse was built for; [`runtime`] represents such
//! a ggml. [`tensor`] and [`tensor_mut`] read and write the structs, [`ids`]
//! numbers tensors, [`operations`] lists what each operation allows, [`visited`] is what ggml has built a graph of.
//! [`buffer_ref`] and [`buffers`] use ggml's functions for buffers and buffer types and list the buffers of lastuse, under a
//! [`lock`]; `remote_sizes` keeps sizes that servers were asked for, [`recycled`] buffers of freed allocators.
//! [`buffer_interface`] replaces functions of buffers, [`pages`] are given back to the system, [`surplus`] are those of compute
//! buffers that graphs no longer need.

pub mod tensor;
pub mod tensor_mut;
pub mod operations;
pub mod probe;
pub mod runtime;
pub mod visited;
pub mod lock;
pub mod buffer_ref;
pub mod ids;
mod remote_sizes;
pub mod buffer_interface;
pub mod buffers;
pub mod recycled;
pub mod pages;
pub mod surplus;
