//! Live buffers, and the accounting of a moment: the use of the bytes of its buffers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use crate::placement::Bytes;

use super::account::{
    AccountedBuffer, AccountedDevice, AccountedGraph, AccountedTensor, Accounting, BufferUsage, Location,
};
use super::sums::{Extent, MemoryClass, Span, Sums, sums};

/// A live buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBuffer {
    /// Its number in the process, from 1; 0 until it is in a ledger.
    pub id: u64,
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
    /// The tensors that are known to be in it, whether or not a graph has them, by offset and name.
    pub contents: BTreeMap<(Bytes, String), AccountedTensor>,
}

impl HeldBuffer {
    /// Returns `true` if another description is of the same memory.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.base, self.bytes) == (other.base, other.bytes)
    }

    fn span(&self) -> Span {
        Span { asked: self.asked, base: self.base, alignment: self.alignment, rest: self.usage.rest() }
    }

    /// Returns the addresses of its bytes, if they are memory of the process alone.
    fn addresses(&self) -> Option<Range<Bytes>> {
        (self.is_host && !self.is_mapped).then(|| self.base..self.base.saturating_add(self.bytes))
    }

    fn accounted(&self, device: &AccountedDevice, resident: Option<Bytes>, sums: Sums) -> AccountedBuffer {
        let Self { id, ref buffer_type, usage, is_mapped: mapped, asked, bytes, .. } = *self;
        let (device, buffer_type) = (device.name.clone(), buffer_type.clone());
        AccountedBuffer { id, device, buffer_type, usage, mapped, asked, bytes, resident, sums }
    }
}

/// Returns the bytes at these addresses that are in memory, or `None` if the system does not say.
pub type MeasureResident = fn(&Range<Bytes>) -> Option<Bytes>;

/// A live buffer at a moment.
#[derive(Clone, Debug)]
pub struct Measured {
    pub buffer: Arc<HeldBuffer>,
    /// Bytes of it that were in memory.
    resident: Option<Bytes>,
}

impl Measured {
    /// Measures a buffer now.
    pub fn now(buffer: &Arc<HeldBuffer>, resident: Option<MeasureResident>) -> Self {
        let resident = resident.zip(buffer.addresses()).and_then(|(resident, addresses)| resident(&addresses));
        Self { buffer: Arc::clone(buffer), resident }
    }
}

/// Computes the sums of buffers and devices from the content of graphs and buffers.
pub fn settled(mut devices: Vec<AccountedDevice>, buffers: &[Measured], graphs: &[Arc<AccountedGraph>]) -> Accounting {
    let mut extents: HashMap<u64, Vec<Extent>> = buffers.iter().map(|held| (held.buffer.id, Vec::new())).collect();
    let mut read: HashSet<(u64, Bytes)> = HashSet::new();
    let mut graphs: Vec<AccountedGraph> = graphs.iter().map(|graph| AccountedGraph::clone(graph)).collect();
    mark_caches(&mut graphs);
    for tensor in graphs.iter_mut().flat_map(|graph| &mut graph.tensors) {
        let of_buffer = tensor.location.and_then(|location| extents.get_mut(&location.buffer));
        match (tensor.location, of_buffer) {
            (Some(location), Some(extents)) if tensor.view_of.is_none() => {
                read.insert((location.buffer, location.offset));
                extents.push(Extent { class: tensor.class, offset: location.offset, bytes: tensor.bytes });
            }
            (_, None) => tensor.location = None,
            _ => {}
        }
    }
    let mut unread = Vec::new();
    let mut settled = Vec::new();
    for Measured { buffer: held, resident } in buffers {
        let extents = extents.entry(held.id).or_default();
        for tensor in held.contents.values() {
            let is_unread = |at: &Location| !read.contains(&(held.id, at.offset));
            let Some(location) = tensor.location.filter(is_unread) else { continue };
            let class = unread_class(held.usage, tensor);
            extents.push(Extent { class, offset: location.offset, bytes: tensor.bytes });
            unread.push(AccountedTensor { class, ..tensor.clone() });
        }
        let sums = sums(&held.span(), extents);
        devices[held.device].sums.add(&sums);
        settled.push(held.accounted(&devices[held.device], *resident, sums));
    }
    // The host, and then cards in the order of their numbers.
    devices.sort_by_cached_key(|device| (device.kind != "cpu", device.name.len(), device.name.clone()));
    Accounting { devices, buffers: settled, graphs, unread, ..Accounting::default() }
}

/// Makes caches of the weights that a node of another graph writes to: one graph may fill a cache, and another read it.
fn mark_caches(graphs: &mut [AccountedGraph]) {
    let mut caches: HashMap<u64, Vec<Range<Bytes>>> = HashMap::new();
    for tensor in graphs.iter().flat_map(|graph| &graph.tensors) {
        if let (MemoryClass::Cache, None, Some(at)) = (tensor.class, &tensor.view_of, tensor.location) {
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
