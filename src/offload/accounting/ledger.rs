//! The buffers of a process as they come and go, and for each device the moment of its largest total.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::placement::Bytes;

use super::account::{AccountedDevice, AccountedGraph, AccountedTensor, Accounting, BufferUsage, DeviceMemory};
use super::buffer::{HeldBuffer, NumberedBuffer};
use super::settled::settled;

/// The moment that an accounting is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Now.
    Now,
    /// For each device, when its buffers had the most bytes together; the first time if there were several.
    Largest,
}

/// The content of one device.
#[derive(Clone, Debug, Default)]
struct DeviceRecord {
    facts: AccountedDevice,
    /// Bytes of its live buffers.
    total: Bytes,
    /// The largest total so far.
    largest: Bytes,
    /// What the device held then; `None` if it holds that now.
    past: Option<Past>,
}

impl DeviceRecord {
    /// Adds the bytes of a buffer.
    fn count(&mut self, asked: Bytes) {
        self.total = self.total.saturating_add(asked);
        if self.total > self.largest {
            (self.largest, self.past) = (self.total, None);
        }
    }

    /// Takes back the bytes of a buffer that was counted wrongly. If the device holds the most now, that was less, too.
    fn discount(&mut self, asked: Bytes) {
        self.total = self.total.saturating_sub(asked);
        if self.past.is_none() {
            self.largest = self.total;
        }
    }
}

/// The buffers of one device at a moment, and the graphs of that moment.
#[derive(Clone, Debug)]
struct Past {
    buffers: Vec<Arc<NumberedBuffer>>,
    graphs: Vec<Arc<AccountedGraph>>,
}

/// A graph, and the bytes that its plan takes in all buffers.
#[derive(Clone, Debug)]
struct PlannedGraph {
    bytes: Bytes,
    graph: Arc<AccountedGraph>,
}

/// The buffers of a process, by address, and the largest graph of each graph allocator. Its size does not grow with the
/// time that a program runs: a device keeps one past moment, an allocator one graph.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    devices: Vec<DeviceRecord>,
    live: HashMap<u64, Arc<NumberedBuffer>>,
    graphs: BTreeMap<u64, PlannedGraph>,
    /// Graphs that belong to no allocator.
    given: Vec<Arc<AccountedGraph>>,
    last_id: u64,
}

impl Ledger {
    /// Adds a device. Returns its position.
    pub fn add_device(&mut self, facts: AccountedDevice) -> usize {
        self.devices.push(DeviceRecord { facts, ..DeviceRecord::default() });
        self.devices.len() - 1
    }

    /// Adds the buffer at `address`, which `is_new` if it was allocated just now; an earlier buffer there was freed.
    /// Otherwise it is the one that was there, if its bytes are at the same place. One without bytes is not added:
    /// programs ask for such buffers to learn something of their type. Returns `true` if its device holds more than
    /// ever before: then [`Ledger::note_memory`] is of the moment that counts.
    pub fn add(&mut self, address: u64, held: HeldBuffer, is_new: bool) -> bool {
        self.free_overlapping(address, &held);
        let is_same = |known: &HeldBuffer| !is_new && (known.base, known.bytes) == (held.base, held.bytes);
        if !self.live.get(&address).is_some_and(|known| is_same(&known.held)) {
            self.remove(address);
        }
        if held.asked.max(held.bytes) == 0 {
            return false;
        }
        let largest_before = self.devices[held.device].largest;
        let buffer = match self.live.remove(&address) {
            Some(mut known) => {
                self.devices[known.held.device].discount(known.held.asked);
                if known.held != held {
                    Arc::make_mut(&mut known).held = held;
                }
                known
            }
            None => {
                self.last_id += 1;
                Arc::new(NumberedBuffer { id: self.last_id, held, contents: BTreeMap::new() })
            }
        };
        let record = &mut self.devices[buffer.held.device];
        record.count(buffer.held.asked);
        let is_largest = record.largest > largest_before;
        self.live.insert(address, buffer);
        is_largest
    }

    /// Buffers whose bytes are now in another one were freed, which was not seen.
    fn free_overlapping(&mut self, address: u64, held: &HeldBuffer) {
        let end = held.base.saturating_add(held.bytes);
        let overlaps = |other: &HeldBuffer| {
            let is_same_memory = other.is_host && held.is_host && !other.is_mapped && !held.is_mapped;
            is_same_memory && other.base < end && held.base < other.base.saturating_add(other.bytes)
        };
        let freed = self.live.iter().filter(|(other, buffer)| **other != address && overlaps(&buffer.held));
        let freed: Vec<u64> = freed.map(|(other, _)| *other).collect();
        freed.into_iter().for_each(|other| _ = self.remove(other));
    }

    /// Sets the memory that a device reports.
    pub fn note_memory(&mut self, device: usize, memory: Option<DeviceMemory>) {
        self.devices[device].facts.memory = memory;
    }

    /// Sets what ggml says that a buffer is used for.
    pub fn set_usage(&mut self, address: u64, usage: BufferUsage) {
        if let Some(buffer) = self.live.get_mut(&address)
            && buffer.held.usage != usage
        {
            Arc::make_mut(buffer).held.usage = usage;
        }
    }

    /// Removes a buffer, which is about to be freed. Returns `false` if there is none at this address.
    pub fn remove(&mut self, address: u64) -> bool {
        let Some(device) = self.live.get(&address).map(|buffer| buffer.held.device) else { return false };
        if self.devices[device].past.is_none() {
            let past = Past { buffers: self.on_device(device), graphs: self.all_graphs() };
            self.devices[device].past = Some(past);
        }
        if let Some(buffer) = self.live.remove(&address) {
            let record = &mut self.devices[device];
            record.total = record.total.saturating_sub(buffer.held.asked);
        }
        true
    }

    /// Returns the number of the buffer at an address.
    pub fn id(&self, address: u64) -> Option<u64> {
        self.live.get(&address).map(|buffer| buffer.id)
    }

    /// Returns the device of the buffer at an address.
    pub fn device_of(&self, address: u64) -> Option<usize> {
        self.live.get(&address).map(|buffer| buffer.held.device)
    }

    /// Returns the name of the type of the buffer at an address.
    pub fn type_of(&self, address: u64) -> Option<String> {
        self.live.get(&address).map(|buffer| buffer.held.buffer_type.clone())
    }

    /// Returns the facts known about the buffer at an address since it was allocated: the bytes asked for, and whether
    /// it is mapped. `None` if none is known there with the bytes of `held`.
    pub fn asked(&self, address: u64, held: &HeldBuffer) -> Option<(Bytes, bool)> {
        let known = self.live.get(&address).map(|buffer| &buffer.held)?;
        ((known.base, known.bytes) == (held.base, held.bytes)).then_some((known.asked, known.is_mapped))
    }

    /// Returns the names of all devices.
    pub fn device_names(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().map(|record| record.facts.name.as_str())
    }

    /// Removes all graphs.
    pub fn forget_graphs(&mut self) {
        self.graphs.clear();
        self.given.clear();
    }

    /// Returns the addresses of all buffers.
    pub fn addresses(&self) -> Vec<u64> {
        self.live.keys().copied().collect()
    }

    /// Adds a tensor that is in the buffer at `address`, unless it is known.
    pub fn add_content(&mut self, address: u64, tensor: AccountedTensor) {
        if let (Some(buffer), Some(location)) = (self.live.get_mut(&address), tensor.location) {
            Arc::make_mut(buffer).contents.insert((location.offset, tensor.name.clone()), tensor);
        }
    }

    /// Sets the graph of an allocator, whose plan takes these bytes, unless an earlier one takes the same number.
    pub fn set_graph(&mut self, allocator: u64, bytes: Bytes, graph: AccountedGraph) {
        if self.takes_graph(allocator, bytes) {
            self.graphs.insert(allocator, PlannedGraph { bytes, graph: Arc::new(graph) });
        }
    }

    /// Returns `true` if a graph of an allocator with a plan of these bytes is larger than the one that is known.
    pub fn takes_graph(&self, allocator: u64, bytes: Bytes) -> bool {
        self.graphs.get(&allocator).is_none_or(|known| known.bytes < bytes)
    }

    /// Adds a graph that belongs to no allocator.
    pub fn add_graph(&mut self, graph: AccountedGraph) {
        self.given.push(Arc::new(graph));
    }

    /// Removes an allocator, whose buffers are freed.
    pub fn remove_allocator(&mut self, allocator: u64) {
        self.graphs.remove(&allocator);
    }

    fn all_graphs(&self) -> Vec<Arc<AccountedGraph>> {
        let planned = self.graphs.values().map(|planned| Arc::clone(&planned.graph));
        planned.chain(self.given.iter().cloned()).collect()
    }

    fn on_device(&self, device: usize) -> Vec<Arc<NumberedBuffer>> {
        self.live.values().filter(|buffer| buffer.held.device == device).cloned().collect()
    }

    /// Returns the accounting of a moment.
    pub fn accounting(&self, moment: Moment) -> Accounting {
        let mut graphs: Vec<Arc<AccountedGraph>> = Vec::new();
        let mut buffers: Vec<Arc<NumberedBuffer>> = Vec::new();
        for (position, record) in self.devices.iter().enumerate() {
            let past = record.past.as_ref().filter(|_| moment == Moment::Largest);
            let (held, of_moment) = match past {
                Some(past) => (past.buffers.clone(), past.graphs.clone()),
                None => (self.on_device(position), self.all_graphs()),
            };
            if !held.is_empty() {
                let is_new = |graph: &Arc<AccountedGraph>| !graphs.iter().any(|known| Arc::ptr_eq(known, graph));
                let new: Vec<_> = of_moment.into_iter().filter(is_new).collect();
                graphs.extend(new);
            }
            buffers.extend(held);
        }
        graphs.sort_by_key(|graph| graph.allocator);
        buffers.sort_by_key(|buffer| buffer.id);
        let devices = self.devices.iter().map(|record| record.facts.clone()).collect();
        settled(devices, &buffers, &graphs)
    }
}
