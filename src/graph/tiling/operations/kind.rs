//! Operations, as far as tiling depends on them.

use super::Window;

/// An operation, as far as tiling depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An operation that is never tiled.
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
        /// As of [`Kind::SoftMax`].
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

impl Kind {
    /// Returns the kind of an operation by ggml's name, where nothing is known of its parameters.
    pub fn named(name: &str) -> Self {
        match name {
            "RESHAPE" | "PERMUTE" | "TRANSPOSE" | "VIEW" => Self::View,
            "UNARY" | "SCALE" | "SQR" | "SQRT" | "LOG" | "SIN" | "COS" | "LEAKY_RELU" => Self::Unary,
            "ADD" | "SUB" | "MUL" | "DIV" => Self::Binary,
            "GLU" => Self::Gated,
            "CONT" | "CPY" | "DUP" => Self::Copy,
            "MUL_MAT" => Self::MatMul,
            "MUL_MAT_ID" => Self::MatMulId,
            "SOFT_MAX" => Self::SoftMax { same_slopes: false, has_mask: None },
            "NORM" | "RMS_NORM" | "L2_NORM" | "SUM_ROWS" | "MEAN" => Self::Rows,
            "SOFT_MAX_BACK" | "RMS_NORM_BACK" => Self::RowsBack,
            "FLASH_ATTN_EXT" => Self::FlashAttention { has_mask: None },
            "ROPE" => Self::Rope,
            "IM2COL" => Self::Im2col(None),
            "GET_ROWS" => Self::GetRows,
            "UPSCALE" | "POOL_2D" => Self::Matrices,
            "GROUP_NORM" => Self::Batches,
            "CONCAT" => Self::Concat,
            "REPEAT" => Self::Repeat,
            _ => Self::Other,
        }
    }

    /// Returns `true` for products of matrices, whose threads share the elements of a row too.
    pub fn is_product(self) -> bool {
        matches!(self, Self::MatMul | Self::MatMulId)
    }

    /// Returns `true` for operations that only view memory in another layout.
    pub fn is_view(self) -> bool {
        self == Self::View
    }
}
