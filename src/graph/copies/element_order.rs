//! Strides for one shape from strides for another with the same elements in the same order.

use crate::graph::Layout;
use crate::placement::Bytes;

/// One dimension of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// In elements.
    pub extent: u64,
    /// In bytes.
    pub stride: u64,
}

/// Where consecutive elements are: the dimensions that enumerate them, fastest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementOrder(Vec<Dimension>);

impl ElementOrder {
    /// Returns the order in which a copy enumerates the elements of a tensor.
    pub fn of(layout: &Layout) -> Self {
        layout.ne.iter().copied().zip(layout.nb).collect()
    }

    /// Returns strides for the extents `ne` with the same elements in the same order; `None` if there are none.
    pub fn strides(&self, ne: [i64; 4], element_size: Bytes) -> Option<[u64; 4]> {
        let mut left = self.0.iter().copied();
        let mut at = Dimension { extent: 1, stride: element_size };
        let mut strides = [0; 4];
        let mut next = element_size;
        for (stride, &extent) in strides.iter_mut().zip(&ne) {
            let extent = extent.unsigned_abs();
            if at.extent == 1 && extent > 1 {
                at = left.next()?;
            }
            *stride = if extent == 1 { next } else { at.stride };
            next = stride.checked_mul(extent)?;
            if extent > 1 {
                at = at.rest_after(extent)?;
            }
        }
        (at.extent == 1 && left.next().is_none()).then_some(strides)
    }
}

impl Dimension {
    /// Returns the rest of it when another dimension enumerates `extent` consecutive elements.
    fn rest_after(self, extent: u64) -> Option<Self> {
        let rest = self.extent.is_multiple_of(extent).then_some(self.extent / extent)?;
        Some(Self { extent: rest, stride: self.stride.checked_mul(extent)? })
    }
}

/// Drops dimensions of one element, and joins neighbours that continue where the other ends.
impl FromIterator<(i64, u64)> for ElementOrder {
    fn from_iter<I: IntoIterator<Item = (i64, u64)>>(dimensions: I) -> Self {
        let mut joined: Vec<Dimension> = Vec::with_capacity(4);
        for (extent, stride) in dimensions {
            let extent = extent.unsigned_abs();
            match joined.last_mut() {
                _ if extent == 1 => {}
                Some(last) if last.stride.checked_mul(last.extent) == Some(stride) => last.extent *= extent,
                _ => joined.push(Dimension { extent, stride }),
            }
        }
        Self(joined)
    }
}

/// Returns where the elements of a tensor without gaps go, in the order of their addresses. `strides` are where the
/// elements go as enumerated by `view`. `None` if the view does not have each element of the tensor once.
pub fn strides_by_address(view: &Layout, strides: [u64; 4], element_size: Bytes) -> Option<ElementOrder> {
    let mut dimensions: Vec<(i64, u64, u64)> =
        (0..4).filter(|&d| view.ne[d] != 1).map(|d| (view.ne[d], view.nb[d], strides[d])).collect();
    dimensions.sort_by_key(|&(_, stride, _)| stride);
    let mut next = element_size;
    for &(extent, stride, _) in &dimensions {
        if stride != next {
            return None;
        }
        next = stride.checked_mul(extent.unsigned_abs())?;
    }
    Some(dimensions.into_iter().map(|(extent, _, stride)| (extent, stride)).collect())
}

/// Returns the strides of a view of all elements of a tensor without gaps, once the elements are moved to `elements`.
/// `None` if there are none.
pub fn strides_of_view(view: &Layout, elements: &ElementOrder, element_size: Bytes) -> Option<[u64; 4]> {
    let mut order = [0, 1, 2, 3];
    order.sort_by_key(|&d| (view.ne[d] == 1, view.nb[d]));
    let strides = elements.strides(order.map(|d| view.ne[d]), element_size)?;
    let mut by_dimension = [0; 4];
    for (&d, stride) in order.iter().zip(strides) {
        by_dimension[d] = stride;
    }
    Some(Layout { nb: by_dimension, ..*view }.tidied(element_size).nb)
}

/// Returns `true` if a tensor has no gaps, and its elements are in the order of a new tensor of ggml.
pub fn is_plain(layout: &Layout, element_size: Bytes) -> bool {
    let strides = layout.tidied(element_size).nb;
    let end = layout.ne.iter().zip(strides).try_fold(element_size, |next, (&extent, stride)| {
        (stride == next).then(|| stride.saturating_mul(extent.unsigned_abs()))
    });
    end.is_some()
}

/// Returns the bytes from the first element to the end of the last, or somewhat more for types with several values in a
/// block.
pub fn reach(layout: &Layout) -> Bytes {
    let element_size = layout.nb.iter().copied().filter(|&stride| stride > 0).min().unwrap_or(0);
    let steps = layout.ne.iter().zip(layout.nb).map(|(&extent, stride)| {
        let steps = extent.unsigned_abs().saturating_sub(1);
        steps.saturating_mul(stride)
    });
    if layout.ne.contains(&0) { 0 } else { steps.fold(element_size, Bytes::saturating_add) }
}
