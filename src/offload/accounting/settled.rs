//! The accounting of a moment: the use of the bytes of its buffers.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use crate::placement::Bytes;

use super::account::{
    AccountedBuffer, AccountedDevice, AccountedGraph, AccountedTensor, Accounting, BufferUsage, Location,
};
use super::buffer::{HeldBuffer, NumberedBuffer};
use super::sums::{Extent, MemoryClass, Span, Sums, sums};

/// Computes the sums of buffers and devices from the content of graphs and buffers.
pub fn settled(
    mut devices: Vec<AccountedDevice>,
    buffers: &[Arc<NumberedBuffer>],
    graphs: &[Arc<AccountedGraph>],
) -> Accounting {
    let mut extents: HashMap<u64, Vec<Extent>> = buffers.iter().map(|buffer| (buffer.id, Vec::new())).collect();
    let mut read: HashSet<(u64, Bytes)> = HashSet::new();
    let mut graphs: Vec<AccountedGraph> = graphs.iter().map(|graph| AccountedGraph::clone(graph)).collect();
    mark_caches(&mut graphs);
    for tensor in graphs.iter_mut().flat_map(|graph| &mut graph.tensors) {
        let of_buffer = tensor.location.and_then(|location| extents.get_mut(&location.buffer));
        match (tensor.location, of_buffer) {
            (Some(location), Some(extents)) if tensor.is_owner() => {
                read.insert((location.buffer, location.offset));
                extents.push(Extent { class: tensor.class, offset: location.offset, bytes: tensor.bytes });
            }
            (_, None) => tensor.location = None,
            _ => {}
        }
    }
    let mut unread = Vec::new();
    let mut settled = Vec::new();
    for NumberedBuffer { id, held, contents } in buffers.iter().map(AsRef::as_ref) {
        let extents = extents.entry(*id).or_default();
        for tensor in contents.values() {
            let Some(location) = tensor.location.filter(|place| !read.contains(&(*id, place.offset))) else { continue };
            let class = unread_class(held.usage, tensor);
            extents.push(Extent { class, offset: location.offset, bytes: tensor.bytes });
            unread.push(AccountedTensor { class, ..tensor.clone() });
        }
        let (asked, base, alignment, rest) = (held.asked, held.base, held.alignment, held.usage.rest());
        let sums = sums(&Span { asked, base, alignment, rest }, extents);
        devices[held.device].sums.add(&sums);
        settled.push(accounted(*id, held, sums));
    }
    Accounting { devices, buffers: settled, graphs, unread, ..Accounting::default() }
}

/// Makes caches of the weights that a node of another graph writes to: one graph may fill a cache, and another read it.
fn mark_caches(graphs: &mut [AccountedGraph]) {
    let mut caches: HashMap<u64, Vec<Range<Bytes>>> = HashMap::new();
    for tensor in graphs.iter().flat_map(|graph| &graph.tensors) {
        if let (MemoryClass::Cache, true, Some(at)) = (tensor.class, tensor.is_owner(), tensor.location) {
            caches.entry(at.buffer).or_default().push(at.offset..at.offset.saturating_add(tensor.bytes));
        }
    }
    let weights = graphs.iter_mut().flat_map(|graph| &mut graph.tensors);
    for tensor in weights.filter(|tensor| tensor.class == MemoryClass::Weights) {
        let is_in =
            |at: Location| caches.get(&at.buffer).is_some_and(|all| all.iter().any(|it| it.contains(&at.offset)));
        if tensor.location.is_some_and(is_in) {
            tensor.class = MemoryClass::Cache;
        }
    }
}

/// Returns the use of a tensor that no graph has.
fn unread_class(usage: BufferUsage, tensor: &AccountedTensor) -> MemoryClass {
    match usage {
        BufferUsage::Weights => MemoryClass::Weights,
        BufferUsage::Compute => MemoryClass::Compute,
        BufferUsage::Any => tensor.class,
    }
}

fn accounted(id: u64, held: &HeldBuffer, sums: Sums) -> AccountedBuffer {
    let HeldBuffer { device, ref buffer_type, usage, is_mapped, asked, bytes, .. } = *held;
    AccountedBuffer { id, device, buffer_type: buffer_type.clone(), usage, is_mapped, asked, bytes, sums }
}
