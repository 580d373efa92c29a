//! A device: how many bytes it offers, and how it hands them out.

use crate::placement::Bytes;

/// Position in the list of devices. The last device is the host.
pub type DeviceIndex = usize;

/// A device with its own memory, or the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name in messages.
    pub name: String,
    /// The most bytes that may be used; `None` for no limit.
    pub budget: Option<Bytes>,
    /// Bytes of the budget for memory outside of buffers, such as the context of a driver.
    pub reserve: Bytes,
    /// The device takes a multiple of this many bytes for a buffer; 1 where it takes exactly the requested bytes.
    pub granularity: Bytes,
    /// Tensors start at multiples of this many bytes.
    pub alignment: Bytes,
    /// The most bytes of a buffer; `None` for no limit.
    pub max_buffer: Option<Bytes>,
}

impl Device {
    /// A device without limits whose tensors start at multiples of 32 bytes.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), budget: None, reserve: 0, granularity: 1, alignment: 32, max_buffer: None }
    }

    /// Returns the bytes of the buffers for tensors of these sizes in this order: a buffer is filled until the next
    /// tensor would exceed the largest size. `None` if a tensor is larger than a buffer may be, or sizes overflow.
    pub fn buffer_bytes(&self, sizes: impl IntoIterator<Item = Bytes>) -> Option<Bytes> {
        let (mut total, mut buffer): (Bytes, Bytes) = (0, 0);
        for size in sizes {
            let padded = size.checked_next_multiple_of(self.alignment)?;
            if !self.may_hold(size) {
                return None;
            }
            let longer = buffer.checked_add(padded)?;
            if self.max_buffer.is_some_and(|max| longer > max) {
                total = total.checked_add(self.taken(buffer)?)?;
                buffer = padded;
            } else {
                buffer = longer;
            }
        }
        total.checked_add(self.taken(buffer)?)
    }

    /// Returns `true` if a tensor of this size, with its padding, is no larger than a buffer may be.
    pub fn may_hold(&self, size: Bytes) -> bool {
        let padded = size.checked_next_multiple_of(self.alignment).unwrap_or(Bytes::MAX);
        self.max_buffer.is_none_or(|max| padded <= max)
    }

    /// Returns the bytes that the device takes for a buffer.
    pub fn taken(&self, buffer: Bytes) -> Option<Bytes> {
        buffer.checked_next_multiple_of(self.granularity)
    }
}
