//! The tiles of its sources that a node needs to compute a tile of its result, by operation.
//!
//! The tiles have the bits of the whole where the kernels of ggml take the path for a tile that they take for the whole.
//! A tile begins at a multiple of [`NodeTiling::multiple`]; an operation or dimension that is missing here is never tiled.

mod matmul;
mod needs;
mod table;
mod window;

pub use crate::graph::{TileKind, Window};
pub use needs::Needs;

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
