//! Accounting: what every device holds, byte by byte, as plain data and as JSON.
//!
//! ```text
//!  buffers as they come and go -> Ledger -> Accounting: devices, buffers, graphs with their tensors -> JSON
//!                                   ^           |
//!  graphs with their tensors -------+           +-> sums: weights + KV + compute + other + rounding = bytes asked for
//! ```
//!
//! Uses [`crate::formats`] and [`crate::placement`]. Each part uses only those above it in this list:
//!
//! - `sums`: the use of the bytes of a buffer; each byte is counted once
//! - `account`: the result
//! - [`json`]: the result as JSON, "lastuse-accounting", described by `docs/accounting.schema.json`
//! - `settled`: the result for a moment, with its sums
//! - `ledger`: the buffers of a process, and for each device the moment of its largest total

mod sums;
mod account;
pub mod json;
mod settled;
mod ledger;
#[cfg(test)]
mod tests;

pub use account::{
    AccountedBuffer, AccountedDevice, AccountedGraph, AccountedTensor, Accounting, AllocatorTurn, BufferUsage, BytesAt,
};
pub use account::{Location, Step, Steps, SumsAt};
pub use ledger::{Ledger, Moment};
pub use settled::HeldBuffer;
pub use sums::{MemoryClass, Sums};
