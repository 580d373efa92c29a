//! Views of tiled tensors: where a dimension of the memory is in a view, and the view of a tile.

use std::cmp::Reverse;

use crate::graph::Layout;
use crate::placement::Bytes;

use super::slices::{count, is_packed};

/// Returns the dimension of `view` whose ranges are ranges of `dimension` of `parent`, a tensor without gaps of which
/// it is a view `offset` bytes from the start. N tiles of one are N tiles of the other.
pub fn dimension_of_view(parent: &Layout, view: &Layout, offset: Bytes, dimension: usize) -> Option<usize> {
    if is_reshaped(parent, view, offset) {
        return reshaped_dimension(parent, view, dimension);
    }
    let is_it = |&other: &usize| {
        view.ne[other] > 1 && view.nb[other] == parent.nb[dimension] && view.ne[other] == parent.ne[dimension]
    };
    let found = (0..4).find(is_it)?;
    moved(parent, view, offset).is_some().then_some(found)
}

/// Returns `true` if a view has all elements of its parent in their order, both without gaps.
fn is_reshaped(parent: &Layout, view: &Layout, offset: Bytes) -> bool {
    let elements = |layout: &Layout| layout.ne.iter().map(|&extent| count(extent)).product::<u64>();
    let is_whole = offset == 0 && elements(view) == elements(parent);
    is_whole && view.nb[0] == parent.nb[0] && is_packed(view) && is_packed(parent)
}

/// For a reshaped tensor, the dimension that has the same number of elements after it, and of which some end where
/// those of the other end.
fn reshaped_dimension(parent: &Layout, view: &Layout, dimension: usize) -> Option<usize> {
    let after =
        |layout: &Layout, dimension: usize| layout.ne[dimension + 1..].iter().map(|&ne| count(ne)).product::<u64>();
    (0..4).find(|&other| view.ne[other] > 1 && after(view, other) == after(parent, dimension))
}

/// Returns, by dimension of the view with more than one element, that of the parent with its stride; and the first
/// elements of the parent that it is from. `None` if the view is not a range of each dimension: also if it has an
/// element of the parent twice, or the parent has elements that share bytes.
fn moved(parent: &Layout, view: &Layout, offset: Bytes) -> Option<([Option<usize>; 4], [u64; 4])> {
    // With at least a byte for each element.
    if parent.has_overlapping_elements(1) {
        return None;
    }
    let mut dimensions = [None; 4];
    let mut first = [0; 4];
    let mut left = offset;
    let mut largest_first = [0, 1, 2, 3];
    largest_first.sort_by_key(|&dimension: &usize| Reverse(parent.nb[dimension]));
    for dimension in largest_first.into_iter().filter(|&dimension| parent.ne[dimension] > 1) {
        first[dimension] = left / parent.nb[dimension].max(1);
        left %= parent.nb[dimension].max(1);
    }
    let mut is_taken = [false; 4];
    for (other, found) in dimensions.iter_mut().enumerate().filter(|(other, _)| view.ne[*other] > 1) {
        let has_stride = |&dimension: &usize| parent.ne[dimension] > 1 && parent.nb[dimension] == view.nb[other];
        let dimension = (0..4).find(has_stride)?;
        let end = first[dimension].checked_add(count(view.ne[other]))?;
        if end > count(parent.ne[dimension]) || std::mem::replace(&mut is_taken[dimension], true) {
            return None;
        }
        *found = Some(dimension);
    }
    let within = |dimension: usize| first[dimension] < count(parent.ne[dimension]).max(1);
    (left == 0 && (0..4).all(within)).then_some((dimensions, first))
}

/// Returns the view of a part of the parent, with `len` elements in `dimension` of the view: its layout and its bytes from
/// the start of the tile.
pub fn view_of_tile(
    [parent, tile]: [&Layout; 2],
    view: &Layout,
    offset: Bytes,
    dimension: usize,
    len: i64,
) -> Option<(Layout, Bytes)> {
    let mut layout = *view;
    layout.ne[dimension] = len;
    if is_reshaped(parent, view, offset) {
        let whole = count(view.ne[dimension]);
        for stride in &mut layout.nb[dimension + 1..] {
            *stride = (*stride / whole).checked_mul(count(len))?;
        }
        return Some((layout, 0));
    }
    let (dimensions, first) = moved(parent, view, offset)?;
    for (other, dimension) in dimensions.iter().enumerate() {
        if let Some(dimension) = dimension {
            layout.nb[other] = tile.nb[*dimension];
        }
    }
    let offset = first
        .iter()
        .zip(&tile.nb)
        .try_fold(0u64, |sum, (&first, &stride)| sum.checked_add(first.checked_mul(stride)?))?;
    // Strides of single elements have no effect; ggml's own are those of the dimension before them.
    for other in (0..4).filter(|&other| dimensions[other].is_none()) {
        layout.nb[other] =
            if other == 0 { tile.nb[0] } else { layout.nb[other - 1].saturating_mul(count(layout.ne[other - 1])) };
    }
    Some((layout, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: Layout = Layout { element: 0, ne: [184, 60, 7, 1], nb: [4, 736, 44160, 309_120] };

    #[test]
    fn ranges_of_a_view_are_ranges_of_its_parent() {
        let rows = Layout { ne: [184, 30, 7, 1], ..PARENT };
        assert_eq!(dimension_of_view(&PARENT, &rows, 736, 2), Some(2));
        assert_eq!(dimension_of_view(&PARENT, &rows, 736, 1), None);
    }

    #[test]
    fn views_that_have_an_element_twice_are_not_tiled() {
        let overlapping = Layout { ne: [60, 184, 1, 1], nb: [4, 4, 736, 736], ..PARENT };
        for dimension in 0..4 {
            assert_eq!(dimension_of_view(&PARENT, &overlapping, 4 * 44160, dimension), None);
            assert_eq!(dimension_of_view(&overlapping, &overlapping, 0, dimension), None);
        }
    }

    #[test]
    fn columns_far_from_each_other_are_not_taken_for_a_row() {
        // A column of a matrix as a row, and a view of the same number of adjacent elements.
        let column = Layout { element: 0, ne: [32, 1, 1, 1], nb: [256, 4, 8192, 8192] };
        let row = Layout { element: 0, ne: [8, 4, 1, 1], nb: [4, 32, 128, 128] };
        assert_eq!(dimension_of_view(&column, &row, 0, 0), None);
    }
}
