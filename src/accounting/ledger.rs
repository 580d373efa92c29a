//! The buffers of a process as they come and go, and for each device the moment of its largest total.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use crate::placement::Bytes;

use super::account::{
    AccountedDevice, AccountedGraph, AccountedTensor, Accounting, AllocatorTurn, BufferUsage, BytesAt, Location,
    MOST_TIMES,
};
use super::settled::{HeldBuffer, MeasureResident, Measured, settled};

/// The moment that an accounting is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Now.
    Now,
    /// For each device, when its buffers had the most bytes together; the first time if there were several.
    Largest,
}

/// The content of one device.
#[derive(Clone, Debug)]
struct DeviceRecord {
    /// Identifies the device.
    key: usize,
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
    buffers: Vec<Measured>,
    graphs: Vec<Arc<AccountedGraph>>,
}

/// A graph, and the bytes that its plan takes in each buffer of its allocator.
#[derive(Clone, Debug)]
struct PlannedGraph {
    sizes: Vec<Bytes>,
    graph: Arc<AccountedGraph>,
}

/// The buffers of a process, by address, and those graphs of each graph allocator that take the most of its buffers. Its size
/// does not grow with the time that a program runs: a device keeps one past moment, an allocator at most one graph for each
/// buffer.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    devices: Vec<DeviceRecord>,
    live: HashMap<u64, Arc<HeldBuffer>>,
    graphs: BTreeMap<u64, Vec<PlannedGraph>>,
    last_id: u64,
    resident: Option<MeasureResident>,
    /// When recording began.
    began: Option<Instant>,
    turns: Vec<AllocatorTurn>,
}

impl Ledger {
    /// Creates one that begins now, and measures how much of the buffers of the host is in memory.
    pub fn measuring(resident: MeasureResident) -> Self {
        Self { resident: Some(resident), began: Some(Instant::now()), ..Self::default() }
    }

    fn now(&self) -> u64 {
        self.began.map_or(0, |began| u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Notes that an allocator which shares memory has allocated a graph that needs these bytes. Of many turns, the first and the
    /// latest ones stay.
    pub fn note_turn(&mut self, allocator: u64, bytes: Bytes) {
        let turn = AllocatorTurn { ms: self.now(), allocator, bytes };
        match self.turns.last_mut() {
            Some(last) if last.allocator == allocator => last.bytes = bytes.max(last.bytes),
            _ => self.turns.push(turn),
        }
        if self.turns.len() > MOST_TIMES {
            self.turns.remove(MOST_TIMES / 2);
        }
    }

    /// Notes the bytes that a device holds now, if they have changed.
    fn note_change(&mut self, device: usize) {
        let ms = self.now();
        let DeviceRecord { facts, total, .. } = &mut self.devices[device];
        if facts.history.last().is_none_or(|last| last.bytes != *total) {
            BytesAt { ms, bytes: *total }.add_to(&mut facts.history);
        }
    }

    /// Returns the position of the device that `key` identifies, which is added if it is new. Devices with the same name
    /// get different ones.
    pub fn device(&mut self, key: usize, facts: &AccountedDevice) -> usize {
        let count = self.devices.len();
        self.devices.iter().position(|device| device.key == key).unwrap_or_else(|| {
            let is_known = self.devices.iter().any(|device| device.facts.name == facts.name);
            let name = if is_known { format!("{} ({count})", facts.name) } else { facts.name.clone() };
            let facts = AccountedDevice { name, ..facts.clone() };
            self.devices.push(DeviceRecord { key, facts, total: 0, largest: 0, past: None });
            count
        })
    }

    /// Adds the buffer at `address`, which `is_new` if it was allocated just now; an earlier buffer there was freed.
    /// Otherwise it is the one that was there, if its bytes are at the same place. One without bytes is not added:
    /// programs ask for such buffers to learn something of their type. Returns `true` if its device holds more than
    /// ever before: then [`Ledger::note_memory`] is of the moment that counts.
    pub fn add(&mut self, address: u64, held: HeldBuffer, is_new: bool) -> bool {
        self.free_overlapping(address, &held);
        if !self.live.get(&address).is_some_and(|known| !is_new && known.is_same(&held)) {
            self.remove(address);
        }
        if held.asked.max(held.bytes) == 0 {
            return false;
        }
        let largest_before = self.devices[held.device].largest;
        let buffer = match self.live.remove(&address) {
            Some(known) => {
                self.devices[known.device].discount(known.asked);
                let HeldBuffer { id, contents, .. } = Arc::unwrap_or_clone(known);
                HeldBuffer { id, contents, ..held }
            }
            None => {
                self.last_id += 1;
                HeldBuffer { id: self.last_id, ..held }
            }
        };
        let record = &mut self.devices[buffer.device];
        record.count(buffer.asked);
        let is_largest = record.largest > largest_before;
        self.note_change(buffer.device);
        self.live.insert(address, Arc::new(buffer));
        is_largest
    }

    /// Adds the buffer at `address`, which was found in a graph, unless more is known of it since it was allocated.
    /// Returns what [`Ledger::add`] does.
    pub fn add_found(&mut self, address: u64, mut held: HeldBuffer) -> bool {
        if let Some(known) = self.live.get(&address).filter(|known| known.is_same(&held)) {
            (held.asked, held.is_mapped) = (known.asked, known.is_mapped);
        }
        self.add(address, held, false)
    }

    /// Buffers whose bytes are now in another one were freed, which was not seen.
    fn free_overlapping(&mut self, address: u64, held: &HeldBuffer) {
        let end = held.base.saturating_add(held.bytes);
        let overlaps = |other: &HeldBuffer| {
            let is_same_memory = other.is_host && held.is_host && !other.is_mapped && !held.is_mapped;
            is_same_memory && other.base < end && held.base < other.base.saturating_add(other.bytes)
        };
        let freed = self.live.iter().filter(|(other, buffer)| **other != address && overlaps(buffer));
        let freed: Vec<u64> = freed.map(|(other, _)| *other).collect();
        freed.into_iter().for_each(|other| _ = self.remove(other));
    }

    /// Sets the free bytes and all bytes that the device with this key reports.
    pub fn note_memory(&mut self, key: usize, reported: Option<[Bytes; 2]>) {
        if let Some(device) = self.devices.iter_mut().find(|device| device.key == key) {
            (device.facts.free, device.facts.memory) = reported.map(|[free, all]| (free, all)).unzip();
        }
    }

    /// Sets what ggml says that a buffer is used for.
    pub fn set_usage(&mut self, address: u64, usage: BufferUsage) {
        if let Some(buffer) = self.live.get_mut(&address)
            && buffer.usage != usage
        {
            Arc::make_mut(buffer).usage = usage;
        }
    }

    /// Removes a buffer, which is about to be freed. Returns `false` if there is none at this address.
    pub fn remove(&mut self, address: u64) -> bool {
        let Some(device) = self.live.get(&address).map(|buffer| buffer.device) else { return false };
        if self.devices[device].past.is_none() {
            let past = Past { buffers: self.on_device(device), graphs: self.all_graphs() };
            self.devices[device].past = Some(past);
        }
        if let Some(buffer) = self.live.remove(&address) {
            let record = &mut self.devices[device];
            record.total = record.total.saturating_sub(buffer.asked);
            self.note_change(device);
        }
        true
    }

    /// Returns `true` if the buffer at an address is known.
    pub fn has(&self, address: u64) -> bool {
        self.live.contains_key(&address)
    }

    /// Sets the place of a tensor: `offset` bytes from the start of the buffer at an address, if that is known.
    pub fn locate(&self, tensor: &mut AccountedTensor, address: u64, offset: Bytes) {
        let Some(buffer) = self.live.get(&address) else { return };
        tensor.location = Some(Location { buffer: buffer.id, offset });
        tensor.resides = Some(self.devices[buffer.device].facts.name.clone());
        tensor.buffer_type = Some(buffer.buffer_type.clone());
    }

    /// Adds a tensor that is in the buffer at `address`, `offset` bytes from its start, unless it is known.
    pub fn add_content(&mut self, address: u64, offset: Bytes, mut tensor: AccountedTensor) {
        self.locate(&mut tensor, address, offset);
        if let Some(buffer) = self.live.get_mut(&address) {
            Arc::make_mut(buffer).contents.insert((offset, tensor.name.clone()), tensor);
        }
    }

    /// Adds a graph of an allocator, whose plan takes these bytes in each buffer, unless earlier ones take as many. Of the others,
    /// those stay that take the most of a buffer: of several with the same bytes the one that takes more in all, then the first.
    pub fn add_graph(&mut self, sizes: Vec<Bytes>, graph: AccountedGraph) {
        if !self.takes_graph(graph.allocator, &sizes) {
            return;
        }
        let all = self.graphs.entry(graph.allocator).or_default();
        all.push(PlannedGraph { sizes, graph: Arc::new(graph) });
        all.sort_by_key(|planned| Reverse(planned.sizes.iter().fold(0, |sum: Bytes, &size| sum.saturating_add(size))));
        let mut kept: Vec<PlannedGraph> = Vec::new();
        for planned in all.drain(..) {
            if is_largest(&planned.sizes, &kept) {
                kept.push(planned);
            }
        }
        *all = kept;
    }

    /// Returns `true` if a graph of an allocator with a plan of these bytes takes more of a buffer than those that are known.
    pub fn takes_graph(&self, allocator: u64, sizes: &[Bytes]) -> bool {
        self.graphs.get(&allocator).is_none_or(|known| is_largest(sizes, known))
    }

    /// Removes an allocator, whose buffers are freed.
    pub fn remove_allocator(&mut self, allocator: u64) {
        self.graphs.remove(&allocator);
    }

    fn all_graphs(&self) -> Vec<Arc<AccountedGraph>> {
        self.graphs.values().flatten().map(|planned| Arc::clone(&planned.graph)).collect()
    }

    fn on_device(&self, device: usize) -> Vec<Measured> {
        let held = self.live.values().filter(|buffer| buffer.device == device);
        held.map(|buffer| Measured::now(buffer, self.resident)).collect()
    }

    /// Returns the accounting of a moment.
    pub fn accounting(&self, moment: Moment) -> Accounting {
        let mut graphs: Vec<Arc<AccountedGraph>> = Vec::new();
        let mut buffers: Vec<Measured> = Vec::new();
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
        buffers.sort_by_key(|held| held.buffer.id);
        let devices = self.devices.iter().map(|record| record.facts.clone()).collect();
        Accounting { turns: self.turns.clone(), ..settled(devices, &buffers, &graphs) }
    }
}

/// Returns `true` if a plan of these bytes takes more of a buffer than all others, or if it is the first.
fn is_largest(sizes: &[Bytes], others: &[PlannedGraph]) -> bool {
    let exceeds = |(buffer, size): (usize, &Bytes)| others.iter().all(|other| other.sizes.get(buffer) < Some(size));
    others.is_empty() || sizes.iter().enumerate().any(exceeds)
}
