//! Tiles that other kernels than those of ggml's CPU backend compute.
//!
//! Kernels of GPUs are chosen by the rows and columns of a matrix. Some take gaps inside of matrices for none, and their memory begins at
//! multiples of an alignment. So whole matrices are in a tile: heads of attention, and batches. Rows are tiled only where a graph
//! cannot run at all as it is; a result with gaps is then copied from a tile that has none.

use crate::graph::{Device, Layout, TileKind};
use crate::placement::Bytes;

use super::super::slices::{gcd, lcm};
use super::{Need, NodeTiling};

/// Fewer columns are computed by kernels for vectors, which are chosen by more than the size of a matrix.
const FEWEST_COLUMNS: i64 = 32;

/// What computes tiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TileKernels {
    /// The kernels of ggml's CPU backend, each of which is known.
    #[default]
    Cpu,
    /// Those of a device.
    Device {
        /// The device.
        device: Device,
        /// Results and slices begin at multiples of this number of bytes.
        alignment: Bytes,
        /// Whether tiles are to have the bits of the whole.
        has_same_bits: bool,
    },
}

impl TileKernels {
    /// Returns the same kernels, with tiles that have the bits of the whole or need not.
    #[must_use]
    pub fn with_same_bits(self, has_same_bits: bool) -> Self {
        match self {
            Self::Cpu => Self::Cpu,
            Self::Device { device, alignment, .. } => Self::Device { device, alignment, has_same_bits },
        }
    }

    /// Returns the alignment of results and slices.
    pub fn alignment(self) -> Bytes {
        match self {
            Self::Cpu => 1,
            Self::Device { alignment, .. } => alignment.max(1),
        }
    }

    /// Returns `true` if tiles with gaps are copied from ones that have none.
    pub fn copies_results(self) -> bool {
        matches!(self, Self::Device { has_same_bits: false, .. })
    }

    /// Returns how these kernels compute tiles of a node; `tiling` is how the CPU does.
    pub(super) fn restrict(
        self,
        tiling: NodeTiling,
        kind: TileKind,
        result: &Layout,
        dimension: usize,
    ) -> Option<NodeTiling> {
        let Self::Device { device, has_same_bits, .. } = self else { return Some(tiling) };
        // IM2COL reads the rows of each channel, which may be apart.
        let strided = [false, matches!(kind, TileKind::Im2col(_)), false, false];
        let packed = NodeTiling { strided, strided_result: false, ..tiling };
        if !has_same_bits {
            return Some(packed);
        }
        let is_known = match kind {
            TileKind::MatMul | TileKind::SoftMax { .. } => result.ne[1] >= FEWEST_COLUMNS,
            TileKind::Unary => true,
            _ => false,
        };
        // Where there are batches, their distance tells some kernels whether all of a tensor is without gaps.
        let is_matrices = dimension == 3 || (dimension == 2 && result.ne[3] == 1);
        if !is_known || !is_matrices {
            return None;
        }
        if device == Device::Vulkan || device == Device::Metal {
            return Some(packed);
        }
        // Libraries have one function for a single matrix, one for several, and one for several that share one.
        let sharing = packed.needs.iter().try_fold(1, |sharing, &need| match need {
            Need::Along { numerator, denominator, .. } => lcm(sharing, denominator / gcd(numerator, denominator)),
            _ => Some(sharing),
        })?;
        Some(NodeTiling {
            multiple: lcm(packed.multiple, sharing)?,
            fewest: packed.fewest.max(sharing).max(2),
            ..packed
        })
    }
}

/// Returns the multiple of elements of a result at which slices of a source begin at multiples of `alignment` bytes; `None` if there is none.
pub fn aligned_multiple(alignment: Bytes, need: Need, source: &Layout) -> Option<i64> {
    let elements = |stride: Bytes| {
        let (stride, alignment) = (i64::try_from(stride).ok()?, i64::try_from(alignment).ok()?);
        Some(alignment / gcd(alignment, stride))
    };
    match need {
        Need::Whole | Need::Itself => Some(1),
        // They begin at any row, since windows have padding.
        Need::Rows(_) => source.nb[1].is_multiple_of(alignment).then_some(1),
        Need::Along { dimension, numerator, denominator } => {
            let common = gcd(numerator, denominator);
            let each = source.nb[dimension].checked_mul(Bytes::try_from(numerator / common).ok()?)?;
            (denominator / common).checked_mul(elements(each)?)
        }
    }
}
