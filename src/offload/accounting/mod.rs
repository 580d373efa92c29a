//! Exact accounting: the content of every device, byte by byte.
//!
//! ```text
//!  buffers as they come and go -> Ledger -> Accounting: devices, buffers, graphs with their tensors
//!                                   ^           |
//!  graphs with their tensors -------+           +-> sums: weights + KV + compute + other + rounding = bytes asked for
//! ```
//!
//! Each part uses only those above it in this list:
//!
//! - `sums`: the use of the bytes of a buffer; each byte is counted once
//! - `account`: the result
//! - `buffer`: a live buffer
//! - `settled`: the result for a moment, with its sums
//! - `ledger`: the buffers of a process, and for each device the moment of its largest total

mod sums;
mod account;
mod buffer;
mod settled;
mod ledger;
#[cfg(test)]
mod tests;

pub use account::{
    AccountedBuffer, AccountedDevice, AccountedGraph, AccountedTensor, Accounting, BufferUsage, DeviceMemory, Location,
    Step, Steps,
};
pub use buffer::HeldBuffer;
pub use ledger::{Ledger, Moment};
pub use sums::{Extent, MemoryClass, Span, Sums, sums};
