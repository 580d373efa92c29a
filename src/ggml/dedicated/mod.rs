//! Dedicated memory: results that lie in buffers of the program, so that they survive later graphs.
//!
//! [`check`] decides whether a tensor can be computed in a buffer, has to be copied there, or cannot be dedicated.
//! [`buffers`] hands out the bytes of each buffer and holds the copies; an allocator has one [`DedicatedBuffers`].

mod check;
mod copy;
mod buffers;

pub use buffers::DedicatedBuffers;
pub use check::DedicateError;
