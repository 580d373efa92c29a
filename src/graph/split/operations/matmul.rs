//! MUL_MAT: each element of the result is a product of a row of each source.

use crate::graph::Layout;

use super::{Cut, Need};

/// Kernels take several rows of the first source at once only if these divide their number.
const TILE: i64 = 4;

/// Parts of the rows of the first source begin at multiples of this many: the largest tile of all types.
const ROWS: i64 = 16;

/// Kernels for several rows of the second source are chosen from this many on.
const COLUMNS: i64 = 8;

/// Returns how MUL_MAT of `[first, second]` is cut.
pub fn cut(result: &Layout, [first, second]: [&Layout; 2], dimension: usize) -> Option<Cut> {
    // Sources of equal types are multiplied as they are, by other kernels where the second has gaps.
    let second_has_any_strides = first.element != second.element;
    let cut = |needs, multiple, fewest| Cut {
        needs,
        multiple,
        fewest,
        strided: [true, second_has_any_strides, false, false],
        strided_result: true,
    };
    if second.ne[1..] != result.ne[1..] || first.ne[1] != result.ne[0] {
        return None;
    }
    match dimension {
        0 if result.ne[0] % TILE == 0 => Some(cut(vec![Need::along(1), Need::Whole], ROWS, TILE)),
        1 if result.ne[1] >= COLUMNS => Some(cut(vec![Need::Whole, Need::along(1)], COLUMNS, COLUMNS)),
        2 | 3 => {
            let broadcast =
                Need::Along { dimension, numerator: first.ne[dimension], denominator: result.ne[dimension] };
            let first = if first.ne[dimension] == 1 { Need::Whole } else { broadcast };
            Some(cut(vec![first, Need::along(dimension)], 1, 1))
        }
        _ => None,
    }
}
