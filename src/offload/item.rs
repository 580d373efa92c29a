//! Items to place: weights and caches.

use crate::placement::Bytes;

use super::device::DeviceIndex;

/// Which buffers a tensor is in: weights and caches are in their own buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ItemKind {
    /// Read only.
    Weight,
    /// Written by the graph and kept between runs.
    Cache,
}

/// The use of a tensor, by which PowerInfer orders them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ItemClass {
    /// Weights of attention, with their norm.
    Attention,
    /// Weights that predict which neurons are active.
    Predictor,
    /// The norm before an FFN.
    FfnNorm,
    /// The output head, with its norm.
    Output,
    /// The cache of values.
    ValueCache,
    /// The cache of keys.
    KeyCache,
    /// Weights of an FFN.
    Ffn,
    /// A tensor of which runs read some rows only, such as the embedding of tokens.
    Embedding,
    /// Anything else.
    Other,
}

/// A weight or a cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The name of the tensor.
    pub name: String,
    /// Which buffers it is in.
    pub kind: ItemKind,
    /// Its use.
    pub class: ItemClass,
    /// Bytes that the buffer type requires for it, before padding.
    pub bytes: Bytes,
    /// The layer of the model.
    pub layer: Option<u32>,
    /// The benefit of having it off the host: finite, not negative. Bytes read in a run are a good measure.
    pub benefit: f64,
    /// The device that it must be on.
    pub pinned: Option<DeviceIndex>,
    /// Rows that can be on a device while the others stay on the host.
    pub rows: Option<Rows>,
    /// The host has these bytes in any case, those of another item, and no more if this one is there too.
    pub is_on_host: bool,
}

impl Item {
    /// Returns the bytes that it takes where it is placed, before padding.
    pub fn bytes_there(&self, is_host: bool) -> Bytes {
        if is_host && self.is_on_host { 0 } else { self.bytes }
    }
}

/// Rows of a tensor, or of several with the same rows, such as the matrices of an FFN, that can be on a device one by
/// one. They are charged there in addition to the whole tensor, which stays on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// How many there are.
    pub count: u64,
    /// How many are placed together; the last group may have fewer.
    pub granule: u64,
    /// Bytes of a row on the device, with what says which row it is.
    pub bytes: Bytes,
    /// The benefit of each group, from the most to the least.
    pub benefits: Vec<f64>,
}

impl Rows {
    /// Returns how many rows the first groups have.
    pub fn in_groups(&self, groups: usize) -> u64 {
        self.granule.saturating_mul(groups as u64).min(self.count)
    }
}
