//! From strides of one shape to strides of another that counts the same elements in the same order.

use crate::graph::Layout;
use crate::placement::Bytes;

/// One dimension: how many steps it has, and how far apart they are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// In steps.
    pub extent: u64,
    /// In bytes.
    pub stride: u64,
}

/// Where elements lie that are counted one after the other: the dimensions, that which counts first before the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counting(Vec<Dimension>);

impl Counting {
    /// The order in which a copy counts the elements of a tensor.
    pub fn of(layout: &Layout) -> Self {
        layout.ne.iter().copied().zip(layout.nb).collect()
    }

    /// Strides of `layout` for dimensions `ne` with the same elements in the same order; `None` where no strides say that.
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
                at = at.part_behind(extent)?;
            }
        }
        (at.extent == 1 && left.next().is_none()).then_some(strides)
    }
}

impl Dimension {
    /// What is left of it when the first `extent` steps of every so many are counted by another dimension.
    fn part_behind(self, extent: u64) -> Option<Self> {
        let rest = self.extent.is_multiple_of(extent).then_some(self.extent / extent)?;
        Some(Self { extent: rest, stride: self.stride.checked_mul(extent)? })
    }
}

/// Dimensions with one step count nothing, and neighbours that go on where the other ends count as one.
impl FromIterator<(i64, u64)> for Counting {
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

/// A view of all elements of a tensor without gaps, with the places where its elements are wanted: where the elements of
/// that tensor are wanted, in the order in which they lie there. `None` when the view does not hold each of them once.
pub fn wanted_by_address(view: &Layout, wanted: [u64; 4], element_size: Bytes) -> Option<Counting> {
    let mut dimensions: Vec<(i64, u64, u64)> =
        (0..4).filter(|&d| view.ne[d] != 1).map(|d| (view.ne[d], view.nb[d], wanted[d])).collect();
    dimensions.sort_by_key(|&(_, stride, _)| stride);
    let mut next = element_size;
    for &(extent, stride, _) in &dimensions {
        if stride != next {
            return None;
        }
        next = stride.checked_mul(extent.unsigned_abs())?;
    }
    Some(dimensions.into_iter().map(|(extent, _, wanted)| (extent, wanted)).collect())
}

/// The strides of a view of all elements of a tensor without gaps, once these lie as `elements` says. `None` where no
/// strides say that.
pub fn strides_of_view(view: &Layout, elements: &Counting, element_size: Bytes) -> Option<[u64; 4]> {
    let mut order = [0, 1, 2, 3];
    order.sort_by_key(|&d| (view.ne[d] == 1, view.nb[d]));
    let strides = elements.strides(order.map(|d| view.ne[d]), element_size)?;
    let mut by_dimension = [0; 4];
    for (&d, stride) in order.iter().zip(strides) {
        by_dimension[d] = stride;
    }
    Some(Layout { nb: by_dimension, ..*view }.tidied(element_size).nb)
}

/// Has a tensor no gaps, and the order that ggml gives a new tensor?
pub fn is_plain(layout: &Layout, element_size: Bytes) -> bool {
    let strides = layout.tidied(element_size).nb;
    let end = layout.ne.iter().zip(strides).try_fold(element_size, |next, (&extent, stride)| {
        (stride == next).then(|| stride.saturating_mul(extent.unsigned_abs()))
    });
    end.is_some()
}

/// Bytes from the first element to the end of the last, or somewhat more: for types with several values in a block.
pub fn reach(layout: &Layout) -> Bytes {
    let element_size = layout.nb.iter().copied().filter(|&stride| stride > 0).min().unwrap_or(0);
    let steps = layout.ne.iter().zip(layout.nb).map(|(&extent, stride)| {
        let steps = extent.unsigned_abs().saturating_sub(1);
        steps.saturating_mul(stride)
    });
    if layout.ne.contains(&0) { 0 } else { steps.fold(element_size, Bytes::saturating_add) }
}
