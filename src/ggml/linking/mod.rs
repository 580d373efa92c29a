//! What the dynamic linker knows: the objects of this process, which of them hold a ggml, and where ggml's functions are.

pub mod caller;
pub mod exports;
pub mod functions;
pub mod loaded;
pub mod original;
pub mod owner;
