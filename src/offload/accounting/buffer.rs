//! A live buffer, and its known content.

use std::collections::BTreeMap;

use crate::placement::Bytes;

use super::account::{AccountedTensor, BufferUsage};

/// A live buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBuffer {
    /// The position of its device in the ledger.
    pub device: usize,
    /// The name of its type.
    pub buffer_type: String,
    /// Its usage according to ggml.
    pub usage: BufferUsage,
    /// True for memory of the program that was made a buffer.
    pub is_mapped: bool,
    /// True if the processor can read it at its addresses. Buffers of other devices may all have the same.
    pub is_host: bool,
    /// Bytes that the buffer type was asked for.
    pub asked: Bytes,
    /// Bytes that the buffer has.
    pub bytes: Bytes,
    /// The first address.
    pub base: Bytes,
    /// Tensors start at multiples of this.
    pub alignment: Bytes,
}

/// A buffer with its number and the tensors that are known to be in it, whether or not a graph has them.
#[derive(Clone, Debug)]
pub struct NumberedBuffer {
    /// Its number in the process, from 1.
    pub id: u64,
    /// The buffer.
    pub held: HeldBuffer,
    /// By offset and name.
    pub contents: BTreeMap<(Bytes, String), AccountedTensor>,
}
