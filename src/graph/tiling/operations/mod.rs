//! The tiles of its sources that a node needs to compute a tile of its result, by operation.
//!
//! The tiles have the bits of the whole where the kernels of ggml take the path for a tile that they take for the whole.
//! A tile begins at a multiple of [`NodeTiling::multiple`]; an operation or dimension that is missing here is never tiled.

mod device;
mod matmul;
mod table;

use std::ops::{Deref, Range};

pub use crate::graph::{TileKind, Window};

pub use device::TileKernels;
pub(super) use device::aligned_multiple;
pub(super) use table::tiled;

/// Maximum number of sources of a tensor.
pub const MOST_SOURCES: usize = 10;

/// The tile of one source that a tile of a result needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The whole source, which may be broadcast.
    Whole,
    /// A range of a dimension: `numerator` of its elements for each `denominator` elements of the result's dimension.
    Along {
        /// The dimension of the source.
        dimension: usize,
        /// Elements of the source...
        numerator: i64,
        /// ... for this number of elements of the result.
        denominator: i64,
    },
    /// The rows (dimension 1) that a sliding window reads.
    Rows(Window),
    /// The node itself, which a cast has as its source.
    Itself,
}

impl Need {
    /// The range of the result, in this dimension of the source.
    pub const fn along(dimension: usize) -> Self {
        Self::Along { dimension, numerator: 1, denominator: 1 }
    }
}

/// How a node is tiled along a dimension of its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTiling {
    /// By slot.
    pub needs: Needs,
    /// Tiles begin at multiples of this number of elements.
    pub multiple: i64,
    /// Minimum number of elements of a tile.
    pub fewest: i64,
    /// Slots whose slices may have gaps where the whole source has none.
    pub strided: [bool; 4],
    /// The result may be written with gaps.
    pub strided_result: bool,
}

/// The tile of each source that a tile of a result needs, by slot. The search computes them for many nodes, so they are
/// not on the heap.
#[derive(Clone, Debug)]
pub struct Needs {
    slots: [Need; MOST_SOURCES],
    len: usize,
}

impl FromIterator<Need> for Needs {
    /// Collects the needed tiles of at most [`MOST_SOURCES`] sources.
    fn from_iter<I: IntoIterator<Item = Need>>(needs: I) -> Self {
        let mut slots = [Need::Whole; MOST_SOURCES];
        let mut len = 0;
        for need in needs {
            slots[len] = need;
            len += 1;
        }
        Self { slots, len }
    }
}

impl<const LEN: usize> From<[Need; LEN]> for Needs {
    fn from(needs: [Need; LEN]) -> Self {
        needs.into_iter().collect()
    }
}

impl Deref for Needs {
    type Target = [Need];

    fn deref(&self) -> &[Need] {
        &self.slots[..self.len]
    }
}

impl PartialEq for Needs {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Needs {}

impl Window {
    /// Returns the window that is most likely, from the rows of the kernel, the input and the result. Enough for bytes:
    /// the slices of an input take none.
    pub fn of_extents(kernel: i64, input: i64, result: i64) -> Option<Self> {
        if kernel < 1 || input < 1 || result < 1 {
            return None;
        }
        let stride = (input.saturating_add(result / 2) / result).max(1);
        let covered = (result - 1).checked_mul(stride)?.checked_add(kernel)?;
        Some(Self { stride, padding: (covered.saturating_sub(input).max(0) + 1) / 2, dilation: 1, kernel })
    }

    /// Returns the rows of an input with `input` rows that the rows `result` read, and the window over these rows alone.
    pub fn over(self, result: &Range<i64>, input: i64) -> Option<(Range<i64>, Self)> {
        let Self { stride, padding, dilation, kernel } = self;
        let top = result.start.checked_mul(stride)?.checked_sub(padding)?;
        let last = (result.end - 1).checked_mul(stride)?.checked_sub(padding)?;
        let end = last.checked_add((kernel - 1).checked_mul(dilation)?)?.checked_add(1)?.min(input);
        let rows = top.max(0)..end;
        // A window over the padding alone has no rows to slice.
        (rows.start < rows.end).then(|| (rows.clone(), Self { padding: rows.start - top, ..self }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows that a window reads, of those that there are.
    fn read(window: Window, row: i64, input: i64) -> Vec<Option<i64>> {
        let rows = (0..window.kernel).map(|k| row * window.stride + k * window.dilation - window.padding);
        rows.map(|row| (0..input).contains(&row).then_some(row)).collect()
    }

    #[test]
    fn windows_over_slices_read_what_the_whole_does() {
        for (stride, padding, dilation, kernel) in
            [(1, 1, 1, 3), (2, 1, 1, 3), (1, 0, 1, 1), (1, 4, 2, 5), (3, 0, 1, 2)]
        {
            let window = Window { stride, padding, dilation, kernel };
            let input = 17;
            let result = (input + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
            for (start, end) in (0..result).flat_map(|start| (start + 1..=result).map(move |end| (start, end))) {
                let Some((rows, tile)) = window.over(&(start..end), input) else { continue };
                for row in start..end {
                    let whole = read(window, row, input);
                    let tile = read(tile, row - start, rows.end - rows.start);
                    let tile: Vec<_> = tile.into_iter().map(|read| read.map(|read| read + rows.start)).collect();
                    assert_eq!(tile, whole, "{window:?}, rows {start}..{end}, row {row}");
                }
            }
        }
    }

    #[test]
    fn likely_windows_follow_from_extents() {
        let same = Window { stride: 1, padding: 1, dilation: 1, kernel: 3 };
        assert_eq!(Window::of_extents(3, 512, 512), Some(same));
        assert_eq!(Window::of_extents(3, 512, 256).map(|it| (it.stride, it.padding)), Some((2, 1)));
        assert_eq!(Window::of_extents(1, 64, 64).map(|it| (it.stride, it.padding)), Some((1, 0)));
        assert_eq!(Window::of_extents(3, 0, 5), None);
    }
}
