//! Layouts of ranges of a tensor.

use std::ops::Range;

use crate::graph::Layout;
use crate::placement::Bytes;

/// The largest number of elements in a block of a quantized type.
const MOST_IN_BLOCK: u64 = 256;

/// The most bytes of an element on its own. Blocks have more: rows of smaller elements that begin inside of each other
/// are not rows of blocks.
const LARGEST_ELEMENT: Bytes = 8;

/// Returns an extent as bytes are counted; extents of real tensors are not negative.
pub fn count(extent: i64) -> Bytes {
    extent.max(0).unsigned_abs()
}

/// Returns the layout of a new tensor with `len` of the elements of a packed one in `dimension`. `None` if its elements
/// cannot be counted so: in rows of blocks, or with gaps.
pub fn packed_tile(layout: &Layout, dimension: usize, len: i64) -> Option<Layout> {
    let whole = count(layout.ne[dimension]);
    let mut tile = *layout;
    tile.ne[dimension] = len;
    for stride in &mut tile.nb[dimension + 1..] {
        if whole == 0 || !stride.is_multiple_of(whole) {
            return None;
        }
        *stride = (*stride / whole).checked_mul(count(len))?;
    }
    let has_whole_rows = dimension > 0 || layout.nb[1] == layout.nb[0].checked_mul(whole)?;
    (has_whole_rows && is_packed(layout)).then_some(tile)
}

/// Returns the layout of a view of `range` of the elements in `dimension`, and its bytes from the start of `layout`.
pub fn slice(layout: &Layout, dimension: usize, range: &Range<i64>) -> Option<(Layout, Bytes)> {
    if dimension == 0 && layout.ne[0] > 1 && layout.nb[1] < layout.nb[0].checked_mul(count(layout.ne[0]))? {
        // Rows of blocks, or a transposed matrix, which look alike.
        let is_transposed = layout.nb[1] < layout.nb[0] && layout.ne[1] > 1;
        if !is_transposed {
            return None;
        }
    }
    let mut tile = *layout;
    tile.ne[dimension] = range.end - range.start;
    Some((tile, layout.nb[dimension].checked_mul(count(range.start))?))
}

/// Returns the bytes from the first to the last element of a tensor with the element type of `given`, which takes `bytes`
/// with its own layout.
pub fn span(given: &Layout, bytes: Bytes, tile: &Layout) -> Option<Bytes> {
    let steps = |layout: &Layout, from: usize| -> Option<Bytes> {
        let strides = layout.nb.iter().zip(&layout.ne).skip(from);
        strides
            .map(|(&stride, &extent)| stride.checked_mul(count(extent - 1)))
            .try_fold(0u64, |sum, step| sum.checked_add(step?))
    };
    if given.ne[0] == tile.ne[0] {
        return bytes.checked_sub(steps(given, 1)?)?.checked_add(steps(tile, 1)?);
    }
    bytes.checked_sub(steps(given, 0)?)?.checked_add(steps(tile, 0)?)
}

/// Returns `true` if there are no gaps between rows, matrices and so on, and none inside of rows.
pub fn is_packed(layout: &Layout) -> bool {
    let Layout { ne, nb, .. } = layout;
    let rows = ne[1] == 1 && ne[2] == 1 && ne[3] == 1 || has_packed_rows(layout);
    let mut next = nb[1];
    rows && (1..4).all(|dimension| {
        let fits = ne[dimension] == 1 || nb[dimension] == next;
        next = next.saturating_mul(count(ne[dimension]));
        fits
    })
}

/// Returns how many elements a block of a packed tensor has; 1 where elements are on their own.
pub fn block_elements(layout: &Layout) -> u64 {
    layout.nb[0].saturating_mul(count(layout.ne[0])) / layout.nb[1].max(1)
}

/// Returns `true` if a row ends where the next begins.
fn has_packed_rows(layout: &Layout) -> bool {
    let (row, next) = (layout.nb[0].saturating_mul(count(layout.ne[0])), layout.nb[1]);
    let is_block = layout.nb[0] > LARGEST_ELEMENT && next >= layout.nb[0];
    let in_blocks = || is_block && row.is_multiple_of(next) && (row / next).is_power_of_two();
    row == next || (in_blocks() && row / next <= MOST_IN_BLOCK)
}

/// Returns the greatest common divisor.
pub fn gcd(one: i64, other: i64) -> i64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// Returns the least common multiple, unless it is too large.
pub fn lcm(one: i64, other: i64) -> Option<i64> {
    (one / gcd(one, other)).checked_mul(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const F32: Layout = Layout { element: 0, ne: [6, 4, 3, 2], nb: [4, 24, 96, 288] };

    #[test]
    fn tiles_are_packed_and_slices_have_the_strides_of_the_whole() {
        let tile = packed_tile(&F32, 1, 2).expect("a packed layout");
        assert_eq!((tile.ne, tile.nb), ([6, 2, 3, 2], [4, 24, 48, 144]));
        let tile = packed_tile(&F32, 0, 3).expect("a packed layout");
        assert_eq!((tile.ne, tile.nb), ([3, 4, 3, 2], [4, 12, 48, 144]));
        let (view, offset) = slice(&F32, 2, &(1..3)).expect("a slice");
        assert_eq!((view.ne, view.nb, offset), ([6, 4, 2, 2], F32.nb, 96));
        assert_eq!(packed_tile(&Layout { nb: [4, 32, 128, 384], ..F32 }, 1, 2), None);
    }

    #[test]
    fn rows_of_blocks_are_not_tiled_inside() {
        let quantized = Layout { element: 8, ne: [64, 4, 1, 1], nb: [34, 68, 272, 272] };
        assert!(is_packed(&quantized));
        assert_eq!((packed_tile(&quantized, 0, 32), slice(&quantized, 0, &(0..32))), (None, None));
        let tile = packed_tile(&quantized, 1, 2).expect("whole rows");
        assert_eq!(span(&quantized, 272, &tile), Some(136));
    }

    #[test]
    fn spans_are_from_the_first_to_the_last_element() {
        let (view, _) = slice(&F32, 1, &(1..3)).expect("a slice");
        assert_eq!(span(&F32, 576, &view), Some(576 - 2 * 24));
        let (view, _) = slice(&F32, 0, &(1..3)).expect("a slice");
        assert_eq!(span(&F32, 576, &view), Some(576 - 4 * 4));
        assert_eq!(span(&F32, 576, &packed_tile(&F32, 3, 1).expect("packed")), Some(288));
    }

    #[test]
    fn rows_that_begin_inside_of_each_other_are_not_packed() {
        assert!(!is_packed(&Layout { ne: [8, 4, 1, 1], nb: [4, 16, 64, 64], element: 0 }));
        assert!(!is_packed(&Layout { ne: [8, 4, 1, 1], nb: [4, 4, 16, 16], element: 0 }));
    }

    #[test]
    fn transposed_matrices_are_not_packed() {
        assert!(!is_packed(&Layout { ne: [4, 6, 1, 1], nb: [24, 4, 96, 96], element: 0 }));
        assert!(is_packed(&F32) && !is_packed(&Layout { nb: [4, 24, 100, 300], ..F32 }));
    }
}
