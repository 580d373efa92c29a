//! A tensor with one dimension, in its storage.

use std::rc::Rc;

use crate::elements::Element;

use crate::malformed::{Result, malformed};

/// Where the elements of tensors are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorStorage {
    pub element: Element,
    /// Its name in the file.
    pub key: Rc<str>,
    /// The number of elements.
    pub count: u64,
}

/// Every `stride`-th element of a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTensor {
    storage: TensorStorage,
    first: usize,
    size: usize,
    stride: usize,
}

impl StoredTensor {
    /// Returns the tensor of `size` elements from `offset` on, if all are in the storage.
    pub fn new(storage: TensorStorage, offset: u64, size: u64, stride: u64) -> Result<Self> {
        let TensorStorage { count, .. } = storage;
        let last = size.saturating_sub(1).checked_mul(stride).and_then(|distance| distance.checked_add(offset));
        if size > 0 && last.is_none_or(|last| last >= count) {
            return malformed(format!(
                "a tensor of {size} elements with offset {offset} and stride {stride} reaches beyond its storage of {count}"
            ));
        }
        if size > 1 && stride == 0 {
            return malformed(format!(
                "a tensor of {size} elements has the stride 0: all are the first one; save a copy of it"
            ));
        }
        match (usize::try_from(offset), usize::try_from(size), usize::try_from(stride)) {
            (Ok(first), Ok(size), Ok(stride)) => Ok(Self { storage, first, size, stride }),
            _ => malformed(format!("the storage of {count} elements is too large")),
        }
    }

    pub fn storage(&self) -> &TensorStorage {
        &self.storage
    }

    /// Returns the elements; `bytes` are those of the storage.
    pub fn values(&self, bytes: &[u8]) -> Result<Vec<f64>> {
        let TensorStorage { element, key, count } = &self.storage;
        let expected = count.checked_mul(element.size() as u64);
        if expected != Some(bytes.len() as u64) {
            return malformed(format!(
                "storage {key:?} has {} bytes, and {count} elements of {} bytes are expected",
                bytes.len(),
                element.size()
            ));
        }
        let elements = bytes.chunks_exact(element.size()).skip(self.first).step_by(self.stride.max(1)).take(self.size);
        Ok(elements.map(|bytes| element.value(bytes)).collect())
    }
}
