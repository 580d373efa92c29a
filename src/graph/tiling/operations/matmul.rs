//! MUL_MAT and MUL_MAT_ID: each element of the result is a product of a row of each source.

use crate::graph::Layout;
use crate::graph::tiling::slices::{block_elements, is_packed};

use super::{Need, NodeTiling};

/// Kernels take several rows of the first source at once only if these divide their number.
const TILE: i64 = 4;

/// Tiles of the rows of the first source begin at multiples of this many: the largest tile of all types.
const ROWS: i64 = 16;

/// Kernels for several rows of the second source are chosen from this many on.
const COLUMNS: i64 = 8;

/// For types with blocks of this many elements, kernels take several tokens of an expert at once where it has several:
/// that is known only when the graph runs.
const LARGE_BLOCK: u64 = 256;

/// Kernels of 64-bit Arm take two quantized rows at once where the sizes of the whole, or of a tile, allow it: with other bits.
fn takes_pairs(first: &Layout) -> bool {
    std::env::consts::ARCH == "aarch64" && block_elements(first) > 1
}

/// Returns how MUL_MAT of `[first, second]` is tiled.
pub fn tiled(result: &Layout, [first, second]: [&Layout; 2], dimension: usize) -> Option<NodeTiling> {
    // Sources of equal types are multiplied as they are, by other kernels where the second has gaps.
    let second_has_any_strides = first.element != second.element;
    let tiled = |needs: [Need; 2], multiple, fewest| NodeTiling {
        needs: needs.into(),
        multiple,
        fewest,
        strided: [true, second_has_any_strides, false, false],
        strided_result: true,
    };
    if second.ne[1..] != result.ne[1..] || first.ne[1] != result.ne[0] || takes_pairs(first) {
        return None;
    }
    match dimension {
        0 if result.ne[0] % TILE == 0 => Some(tiled([Need::along(1), Need::Whole], ROWS, TILE)),
        1 if result.ne[1] >= COLUMNS => Some(tiled([Need::Whole, Need::along(1)], COLUMNS, COLUMNS)),
        2 | 3 => {
            let broadcast =
                Need::Along { dimension, numerator: first.ne[dimension], denominator: result.ne[dimension] };
            let first = if first.ne[dimension] == 1 { Need::Whole } else { broadcast };
            Some(tiled([first, Need::along(dimension)], 1, 1))
        }
        _ => None,
    }
}

/// Returns how MUL_MAT_ID of `[experts, columns, ids]` is tiled: the result has the experts of a token in dimension 1, and the
/// tokens in dimension 2.
pub fn tiled_by_id(result: &Layout, [experts, columns, ids]: [&Layout; 3], dimension: usize) -> Option<NodeTiling> {
    let fits = experts.ne[1] == result.ne[0] && ids.ne[..2] == result.ne[1..3] && columns.ne[2] == result.ne[2];
    let is_by_row = || is_packed(experts) && block_elements(experts) < LARGE_BLOCK;
    let needs = match dimension {
        0 => [Need::along(1), Need::Whole, Need::Whole],
        1 if is_by_row() && columns.ne[1] == 1 => [Need::Whole, Need::Whole, Need::along(0)],
        1 if is_by_row() && columns.ne[1] == result.ne[1] => [Need::Whole, Need::along(1), Need::along(0)],
        2 if is_by_row() => [Need::Whole, Need::along(2), Need::along(1)],
        _ => return None,
    };
    fits.then_some(NodeTiling { needs: needs.into(), multiple: 1, fewest: 1, strided: [true; 4], strided_result: true })
}
