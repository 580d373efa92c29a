//! Access to live tensors, graphs and buffers of a ggml whose struct layout the probe has confirmed.

pub mod tensor;
pub mod tensor_mut;
pub mod ids;
pub mod operations;
pub mod probe;
pub mod runtime;
pub mod buffer_ref;
pub mod buffers;
