//! The use of the bytes of a buffer.

#[cfg(feature = "serde")]
use serde::Deserialize;

use crate::placement::Bytes;

/// The use of bytes of a buffer. A byte shared by tensors of several classes belongs to the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Deserialize), serde(rename_all = "lowercase"))]
pub enum MemoryClass {
    /// Tensors that are in memory before a graph runs, and that it only reads.
    Weights,
    /// Tensors that are in memory before a graph runs, and that it writes to: caches of keys and values, recurrent states.
    #[cfg_attr(feature = "serde", serde(rename = "kv"))]
    Cache,
    /// Inputs and intermediates that a graph allocator places.
    Compute,
    /// Everything else: buffers of outputs, inputs in buffers of the program, buffers of which no tensor is known.
    Other,
}

impl MemoryClass {
    /// All classes, the first first.
    pub const ALL: [Self; 4] = [Self::Weights, Self::Cache, Self::Compute, Self::Other];

    /// Returns the name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Cache => "kv",
            Self::Compute => "compute",
            Self::Other => "other",
        }
    }
}

/// Bytes by use. The parts add up to the requested bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Deserialize))]
pub struct Sums {
    /// Weights.
    pub weights: Bytes,
    /// Caches and states.
    pub kv: Bytes,
    /// Compute buffers.
    pub compute: Bytes,
    /// Everything else.
    pub other: Bytes,
    /// Padding: between the end of a tensor and the next address that a tensor may have.
    pub rounding: Bytes,
}

impl Sums {
    /// Returns all bytes.
    pub fn total(&self) -> Bytes {
        let Self { weights, kv, compute, other, rounding } = *self;
        [weights, kv, compute, other, rounding].into_iter().fold(0, Bytes::saturating_add)
    }

    /// Adds other sums, part by part.
    pub fn add(&mut self, other: &Self) {
        for class in MemoryClass::ALL {
            let part = self.part(class);
            *part = part.saturating_add(other.of(class));
        }
        self.rounding = self.rounding.saturating_add(other.rounding);
    }

    /// Returns the bytes of a class.
    pub fn of(&self, class: MemoryClass) -> Bytes {
        match class {
            MemoryClass::Weights => self.weights,
            MemoryClass::Cache => self.kv,
            MemoryClass::Compute => self.compute,
            MemoryClass::Other => self.other,
        }
    }

    /// Returns the bytes of a class, to be changed.
    pub fn part(&mut self, class: MemoryClass) -> &mut Bytes {
        match class {
            MemoryClass::Weights => &mut self.weights,
            MemoryClass::Cache => &mut self.kv,
            MemoryClass::Compute => &mut self.compute,
            MemoryClass::Other => &mut self.other,
        }
    }
}

/// The bytes that a tensor takes in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Their use.
    pub class: MemoryClass,
    /// The first byte.
    pub offset: Bytes,
    /// Their number.
    pub bytes: Bytes,
}

/// A buffer, as far as its sums depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Bytes that the buffer type was asked for.
    pub asked: Bytes,
    /// The first address, which alignment is counted from.
    pub base: Bytes,
    /// Tensors start at multiples of this.
    pub alignment: Bytes,
    /// The use of bytes that no known tensor takes, beyond padding.
    pub rest: MemoryClass,
}

/// Returns the use of the bytes of a buffer whose tensors take these. Bytes from the end of a tensor to the next
/// multiple of the alignment are rounding; bytes from there to the next tensor have the use of the buffer.
pub fn sums(span: &Span, extents: &[Extent]) -> Sums {
    let mut found = Sums::default();
    let mut covered = Ranges::default();
    for class in MemoryClass::ALL {
        let before = covered.bytes();
        let of_class = extents.iter().filter(|extent| extent.class == class);
        covered.add(of_class.map(|extent| [extent.offset, extent.offset.saturating_add(extent.bytes)]), span.asked);
        *found.part(class) = covered.bytes() - before;
    }
    let mut end = 0;
    for [start, next] in covered.0.iter().copied().chain([[span.asked, span.asked]]) {
        let aligned = padded_address(span, end).clamp(end, start);
        found.rounding += aligned - end;
        *found.part(span.rest) += start - aligned;
        end = next;
    }
    found
}

/// Returns the first offset from `offset` on whose address is aligned.
fn padded_address(span: &Span, offset: Bytes) -> Bytes {
    let address = span.base.checked_add(offset);
    let aligned = address.and_then(|address| address.checked_next_multiple_of(span.alignment.max(1)));
    aligned.map_or(offset, |aligned| aligned - span.base)
}

/// Disjoint ranges in their order, none of which touches the next.
#[derive(Default)]
struct Ranges(Vec<[Bytes; 2]>);

impl Ranges {
    /// Adds ranges, as far as they lie below `limit`.
    fn add(&mut self, others: impl Iterator<Item = [Bytes; 2]>, limit: Bytes) {
        let mut all = std::mem::take(&mut self.0);
        all.extend(others.map(|[start, end]| [start, end.min(limit)]).filter(|[start, end]| start < end));
        all.sort_unstable();
        for [start, end] in all {
            match self.0.last_mut() {
                Some(last) if start <= last[1] => last[1] = end.max(last[1]),
                _ => self.0.push([start, end]),
            }
        }
    }

    fn bytes(&self) -> Bytes {
        self.0.iter().map(|[start, end]| end - start).sum()
    }
}
