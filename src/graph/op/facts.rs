//! The columns of the table of operations, and how a row is written.

use super::{Effect, InPlace, Slots, Strides, Version};

/// How an operation copies its sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    /// CPY: into its second source, or into its own memory where that source is the node itself.
    Into,
    /// CONT and DUP: into its own memory.
    Whole,
    /// CONCAT: two sources, one after the other.
    Concat,
}

/// How an operation can be computed in tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileKind {
    /// Never.
    Other,
    /// RESHAPE, PERMUTE, TRANSPOSE and VIEW: another layout of the memory of their source.
    View,
    /// Each element from one element. Kernels handle a row with vectors and its tail without, so rows stay whole.
    Unary,
    /// Each element from one or two elements, exactly rounded; the second source may be broadcast.
    Binary,
    /// A gated activation: rows stay whole.
    Gated,
    /// Copies elements, and may convert them.
    Copy,
    /// MUL_MAT.
    MatMul,
    /// MUL_MAT_ID.
    MatMulId,
    /// SOFT_MAX; `same_slopes` if it is known that no slope of ALiBi depends on the head.
    SoftMax {
        /// All heads add the mask alike.
        same_slopes: bool,
        /// Whether there is a mask, before the sinks; `None` where only the sources are known.
        has_mask: Option<bool>,
    },
    /// Each row from a row, such as norms.
    Rows,
    /// Each row from a row of each of two sources.
    RowsBack,
    /// FLASH_ATTN_EXT.
    FlashAttention {
        /// As of [`TileKind::SoftMax`].
        has_mask: Option<bool>,
    },
    /// ROPE: each row from a row and its position.
    Rope,
    /// IM2COL, with its window where it is known; otherwise it is found from the extents.
    Im2col(Option<Window>),
    /// GET_ROWS.
    GetRows,
    /// Each matrix (dimensions 0 and 1) from a matrix.
    Matrices,
    /// Each element of dimension 3 from one of the first source.
    Batches,
    /// CONCAT.
    Concat,
    /// REPEAT.
    Repeat,
}

impl TileKind {
    /// Returns `true` for products of matrices, whose threads share the elements of a row too.
    pub fn is_product(self) -> bool {
        matches!(self, Self::MatMul | Self::MatMulId)
    }

    /// Returns `true` for operations that only view memory in another layout.
    pub fn is_view(self) -> bool {
        self == Self::View
    }
}

/// How the rows of a convolution's result follow from the rows of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Rows of the input from one row of the result to the next.
    pub stride: i64,
    /// Rows of zeros above the input.
    pub padding: i64,
    /// Rows from one row of the kernel to the next.
    pub dilation: i64,
    /// Rows of the kernel.
    pub kernel: i64,
}

/// How the floating-point operations of a node are counted: multiplications, additions and the like of ggml's CPU
/// kernels, a few for a transcendental function. What moves data counts one per element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// None: views and no-ops.
    Free,
    /// This many per element of the result.
    PerElement(u64),
    /// This many per element of the first source.
    PerElementOfFirst(u64),
    /// Two per element of the result and extent of the first source in this dimension, over which products are summed.
    ProductsAlong(usize),
    /// Two per element of the result and element of a filter, which is the first source without its last dimension.
    Convolution,
    /// Two per element of the first source, the filter, and position of the second.
    TransposedConvolution,
    /// Scores, softmax and weighted sums, for queries, keys and values.
    Attention,
    /// Per element of the result, this many for each element of a head's state, which is as wide as a head.
    Recurrence(u64),
}

/// Groups of operations, as pictures show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpGroup {
    /// Products of matrices.
    Product,
    /// Attention, and the like of other mixers of tokens.
    Attention,
    /// Normalizations.
    Norm,
    /// Each element by itself, and sums.
    Elementwise,
    /// Rows by their numbers, and positions.
    Rows,
    /// Copies and joins.
    Copy,
    /// Convolutions, and states.
    Convolution,
    /// NONE: inputs and weights.
    Input,
    /// All others.
    Other,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct OpFacts {
    pub effect: Effect,
    /// The version of ggml since which `ggml_op_can_inplace` lists it, as far as known.
    pub listed_since: Option<Version>,
    /// The sources that it may write over where it is listed.
    pub listed_slots: Slots,
    /// Those of versions before one whose kernels read all sources first.
    pub older_slots: Option<(Version, Slots)>,
    /// Which sources it may write over where it is not listed.
    pub unlisted: InPlace,
    pub writes: Strides,
    /// By slot; sources of further slots are read contiguous.
    pub reads: &'static [Strides],
    pub copies: Option<CopyKind>,
    pub tiles: TileKind,
    pub work: Work,
    pub group: OpGroup,
}

/// Facts of which the worst is assumed: an unknown operation may write its sources too, as operations of ggml do.
pub const UNKNOWN: OpFacts = OpFacts {
    effect: Effect::Sources(Slots::ALL),
    listed_since: None,
    listed_slots: Slots::ALL,
    older_slots: None,
    unlisted: InPlace::Never,
    writes: Strides::OnlyItsOwn,
    reads: &[],
    copies: None,
    tiles: TileKind::Other,
    work: Work::PerElement(1),
    group: OpGroup::Other,
};

/// An operation that writes its result and nothing else, in ggml 0.9.5, 0.26 and 0.28.
const fn pure(group: OpGroup) -> OpFacts {
    OpFacts { effect: Effect::Result, group, ..UNKNOWN }
}

pub const fn product() -> OpFacts {
    pure(OpGroup::Product)
}

pub const fn attention() -> OpFacts {
    pure(OpGroup::Attention)
}

pub const fn norm() -> OpFacts {
    pure(OpGroup::Norm)
}

pub const fn elementwise() -> OpFacts {
    pure(OpGroup::Elementwise)
}

pub const fn rows() -> OpFacts {
    pure(OpGroup::Rows)
}

pub const fn copy() -> OpFacts {
    pure(OpGroup::Copy)
}

pub const fn convolution() -> OpFacts {
    pure(OpGroup::Convolution)
}

pub const fn other() -> OpFacts {
    pure(OpGroup::Other)
}

/// NONE.
pub const fn nothing() -> OpFacts {
    OpFacts { effect: Effect::Nothing, work: Work::Free, group: OpGroup::Input, ..UNKNOWN }
}

/// An operation that only views its source.
pub const fn view() -> OpFacts {
    OpFacts { effect: Effect::View, work: Work::Free, tiles: TileKind::View, ..UNKNOWN }
}

/// An operation that runs a function of the program.
pub const fn program() -> OpFacts {
    OpFacts { effect: Effect::Anything, ..UNKNOWN }
}

/// An operation that also writes these sources.
pub const fn writing(sources: Slots) -> OpFacts {
    OpFacts { effect: Effect::Sources(sources), ..UNKNOWN }
}

impl OpFacts {
    /// In ggml's list of operations that may write over a source, in all versions.
    pub const fn listed(self) -> Self {
        self.listed_since([0; 3])
    }

    /// In that list since a version.
    pub const fn listed_since(self, version: Version) -> Self {
        Self { listed_since: Some(version), ..self }
    }

    /// Where it is listed, it may write over these sources only.
    pub const fn over(self, slots: Slots) -> Self {
        Self { listed_slots: slots, ..self }
    }

    /// Kernels before a version copy one source to the result before they read the other.
    pub const fn over_before(self, version: Version, slots: Slots) -> Self {
        Self { older_slots: Some((version, slots)), ..self }
    }

    /// See [`InPlace`].
    pub const fn in_place(self, unlisted: InPlace) -> Self {
        Self { unlisted, ..self }
    }

    /// See [`InPlace::RowByRow`].
    pub const fn by_row(self, slots: Slots) -> Self {
        self.in_place(InPlace::RowByRow(slots))
    }

    /// See [`InPlace::Scan`].
    pub const fn scans(self, slots: Slots) -> Self {
        self.in_place(InPlace::Scan(slots))
    }

    /// See [`CopyKind`].
    pub const fn copies(self, kind: CopyKind) -> Self {
        Self { copies: Some(kind), ..self }
    }

    /// Writes its result in these layouts. `Contiguous` is the one that ggml created, at any address.
    pub const fn writes(self, writes: Strides) -> Self {
        Self { writes, ..self }
    }

    /// Reads its first sources in these layouts.
    pub const fn reads(self, reads: &'static [Strides]) -> Self {
        Self { reads, ..self }
    }

    pub const fn tiles(self, tiles: TileKind) -> Self {
        Self { tiles, ..self }
    }

    pub const fn work(self, work: Work) -> Self {
        Self { work, ..self }
    }
}
