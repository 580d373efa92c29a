//! A ledger, with the devices that it has.

use std::collections::HashMap;

use crate::ggml::live::memory_device::MemoryDevice;
use crate::graph::Address;
use crate::offload::accounting::{AccountedDevice, AccountedGraph, DeviceMemory, Ledger, Location};

use super::describe::DescribedBuffer;
use super::draft::{DraftPlace, GraphDraft};

/// A ledger, with the devices that it has.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// The ledger.
    pub ledger: Ledger,
    devices: HashMap<MemoryDevice, usize>,
}

impl Books {
    /// Returns the position of a device, which is added if it is new. Two devices of one name get different ones.
    fn device(&mut self, memory: MemoryDevice, facts: &AccountedDevice) -> usize {
        let Self { ledger, devices } = self;
        let count = devices.len();
        *devices.entry(memory).or_insert_with(|| {
            let is_known = ledger.device_names().any(|name| name == facts.name);
            let name = if is_known { format!("{} ({count})", facts.name) } else { facts.name.clone() };
            ledger.add_device(AccountedDevice { name, ..facts.clone() })
        })
    }

    /// Adds a buffer, which `is_new` if it was allocated just now. Returns `true` if its device holds more than ever before.
    pub fn add(&mut self, described: DescribedBuffer, is_new: bool) -> bool {
        let device = self.device(described.memory, &described.device);
        let mut held = described.held;
        held.device = device;
        self.ledger.add(described.address, held, is_new)
    }

    /// Returns the devices.
    pub fn devices(&self) -> Vec<MemoryDevice> {
        self.devices.keys().copied().collect()
    }

    /// Sets the memory that a device reports.
    pub fn note_memory(&mut self, memory: MemoryDevice, says: Option<DeviceMemory>) {
        if let Some(&device) = self.devices.get(&memory) {
            self.ledger.note_memory(device, says);
        }
    }

    /// Adds the buffers of a graph that are not known, and returns the graph with the places of its tensors. `chunk` returns
    /// the address of the buffer that a planned tensor lies in.
    pub fn settle(&mut self, draft: GraphDraft, chunk: impl Fn(Address) -> Option<u64>) -> AccountedGraph {
        let GraphDraft { mut graph, places, buffers } = draft;
        for mut buffer in buffers {
            // The note made when it was allocated is more exact.
            if let Some((asked, is_mapped)) = self.ledger.asked(buffer.address, &buffer.held) {
                (buffer.held.asked, buffer.held.is_mapped) = (asked, is_mapped);
            }
            self.add(buffer, false);
        }
        for (tensor, place) in graph.tensors.iter_mut().zip(places) {
            let (address, offset) = match place {
                DraftPlace::Nowhere => continue,
                DraftPlace::Planned(at, within) => match chunk(at) {
                    Some(address) => (address, at.offset + within),
                    None => continue,
                },
                DraftPlace::In(address, offset) => (address, offset),
            };
            tensor.location = self.ledger.id(address).map(|buffer| Location { buffer, offset });
            tensor.device = self.ledger.device_of(address);
            tensor.buffer_type = self.ledger.type_of(address);
        }
        graph
    }
}
