//! Which device the bytes of buffers are on, and what ggml says of that device.

use std::ptr::{NonNull, null};

use crate::ggml::bindings::{ggml_backend, ggml_backend_device};
use crate::offload::accounting::{AccountedDevice, DeviceMemory};

use super::buffers::BufferType;
use super::runtime::{Runtime, text};

/// ggml's numbers for kinds of devices.
const CPU: u32 = 0;
const KINDS: [(u32, &str); 4] = [(CPU, "cpu"), (1, "gpu"), (2, "integrated gpu"), (3, "accelerator")];

/// Where bytes are. Equal ones are the same memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryDevice {
    /// The memory of the host, also where it belongs to the device of a GPU, as pinned memory does.
    Host,
    /// A device of ggml, by its address.
    Device(NonNull<ggml_backend_device>),
    /// Memory of a buffer type that names no device, by its address.
    Unnamed(usize),
}

// SAFETY: devices are never freed, and ggml's functions take them in any thread.
unsafe impl Send for MemoryDevice {}
// SAFETY: as above.
unsafe impl Sync for MemoryDevice {}

impl BufferType {
    /// Returns the device that the bytes of its buffers are on.
    pub fn memory_device(self) -> MemoryDevice {
        if self.is_host() {
            return MemoryDevice::Host;
        }
        match NonNull::new(self.device_of_type()) {
            // Its buffers may be in layouts that only its own kernels read.
            Some(device) if self.runtime().kind_of(device) == Some(CPU) => MemoryDevice::Host,
            Some(device) => MemoryDevice::Device(device),
            None => MemoryDevice::Unnamed(self.as_ptr().addr()),
        }
    }

    /// Returns what ggml says of the device that the bytes are on.
    pub fn device_facts(self) -> AccountedDevice {
        match self.memory_device() {
            MemoryDevice::Device(device) => self.runtime().facts_of(device),
            MemoryDevice::Host => AccountedDevice {
                name: "CPU".to_owned(),
                description: "the memory of the host".to_owned(),
                kind: "cpu".to_owned(),
                ..AccountedDevice::default()
            },
            MemoryDevice::Unnamed(_) => {
                AccountedDevice { name: self.name(), kind: "other".to_owned(), ..AccountedDevice::default() }
            }
        }
    }
}

impl Runtime {
    /// Returns ggml's number for the kind of a device.
    fn kind_of(&self, device: NonNull<ggml_backend_device>) -> Option<u32> {
        // SAFETY: a device of this ggml.
        self.functions.ggml_backend_dev_type.map(|kind| unsafe { kind(device.as_ptr()) })
    }

    fn facts_of(&self, given: NonNull<ggml_backend_device>) -> AccountedDevice {
        let functions = &self.functions;
        let device = given.as_ptr();
        // SAFETY: a device of this ggml.
        let name = functions.ggml_backend_dev_name.map_or(null(), |name| unsafe { name(device) });
        // SAFETY: as above.
        let description = functions.ggml_backend_dev_description.map_or(null(), |it| unsafe { it(device) });
        // SAFETY: null, or strings that end in NUL.
        let [name, description] = [name, description].map(|string| unsafe { text(string) });
        let kind = self.kind_of(given);
        let kind = KINDS.iter().find(|(number, _)| Some(*number) == kind).map_or("other", |(_, kind)| kind);
        AccountedDevice { name, description, kind: kind.to_owned(), ..AccountedDevice::default() }
    }

    /// Returns the memory that a device reports now; for the host, the numbers of the system.
    pub fn memory_of(&self, device: MemoryDevice) -> Option<DeviceMemory> {
        match device {
            MemoryDevice::Host => host_memory(),
            MemoryDevice::Unnamed(_) => None,
            MemoryDevice::Device(device) => {
                let memory = self.functions.ggml_backend_dev_memory?;
                let (mut free, mut total) = (0, 0);
                // SAFETY: a device of this ggml, and two numbers.
                unsafe { memory(device.as_ptr(), &raw mut free, &raw mut total) };
                (total > 0).then_some(DeviceMemory { free: free as u64, total: total as u64 })
            }
        }
    }

    /// Returns the name of a backend.
    ///
    /// # Safety
    /// `backend` is a live backend of this ggml.
    pub unsafe fn backend_name(&self, backend: NonNull<ggml_backend>) -> Option<String> {
        let name = self.functions.ggml_backend_name?;
        // SAFETY: a live backend of this ggml, as the caller guarantees.
        let name = unsafe { name(backend.as_ptr()) };
        // SAFETY: names end in NUL.
        Some(unsafe { text(name) })
    }
}

fn host_memory() -> Option<DeviceMemory> {
    let bytes = |name: libc::c_int| {
        // SAFETY: takes numbers.
        let [pages, size] = [name, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
        u64::try_from(pages).ok()?.checked_mul(u64::try_from(size).ok()?)
    };
    Some(DeviceMemory { free: bytes(libc::_SC_AVPHYS_PAGES)?, total: bytes(libc::_SC_PHYS_PAGES)? })
}
