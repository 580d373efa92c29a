//! Kinds of operations, with their colours.

/// A kind of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperationKind {
    Product,
    Attention,
    Norm,
    Elementwise,
    Rows,
    Copy,
    Convolution,
    Input,
    Other,
}

impl OperationKind {
    /// All kinds, in the order of the legend.
    pub const ALL: [Self; 9] = [
        Self::Product,
        Self::Attention,
        Self::Norm,
        Self::Elementwise,
        Self::Rows,
        Self::Copy,
        Self::Convolution,
        Self::Input,
        Self::Other,
    ];

    /// Returns the kind of an operation, by ggml's name.
    pub fn of(op: &str) -> Self {
        let named = |(_, names): &&(Self, &[&str])| names.contains(&op);
        NAMES.iter().find(named).map_or(Self::Other, |(kind, _)| *kind)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Product => "matrix product",
            Self::Attention => "attention",
            Self::Norm => "normalization",
            Self::Elementwise => "elementwise",
            Self::Rows => "rows and positions",
            Self::Copy => "copy or join",
            Self::Convolution => "convolution or state",
            Self::Input => "input",
            Self::Other => "other",
        }
    }

    /// Returns the colour, from the palette of Okabe and Ito, which is safe for any kind of colour vision.
    pub fn colour(self) -> &'static str {
        match self {
            Self::Product => "#0072b2",
            Self::Attention => "#d55e00",
            Self::Norm => "#009e73",
            Self::Elementwise => "#56b4e9",
            Self::Rows => "#e69f00",
            Self::Copy => "#cc79a7",
            Self::Convolution => "#f0e442",
            Self::Input => "#9aa3ad",
            Self::Other => "#5f6670",
        }
    }

    /// Returns the colour of text that is readable on [`Self::colour`].
    pub fn ink(self) -> &'static str {
        match self {
            Self::Product | Self::Other => "#ffffff",
            _ => "#101418",
        }
    }
}

/// The operations of each kind; all others are [`OperationKind::Other`].
#[rustfmt::skip]
const NAMES: [(OperationKind, &[&str]); 8] = [
    (OperationKind::Product, &["MUL_MAT", "MUL_MAT_ID", "OUT_PROD"]),
    (OperationKind::Attention, &[
        "DIAG_MASK_INF", "DIAG_MASK_ZERO", "FLASH_ATTN_BACK", "FLASH_ATTN_EXT", "GATED_DELTA_NET", "GATED_LINEAR_ATTN",
        "LIGHTNING_INDEXER", "SOFT_MAX", "SOFT_MAX_BACK",
    ]),
    (OperationKind::Norm, &["GROUP_NORM", "L2_NORM", "NORM", "RMS_NORM", "RMS_NORM_BACK"]),
    (OperationKind::Elementwise, &[
        "ADD", "ADD1", "ADD_ID", "CLAMP", "COS", "CUMSUM", "DIV", "FILL", "GLU", "LEAKY_RELU", "LOG", "MEAN", "MUL",
        "SCALE", "SILU_BACK", "SIN", "SQR", "SQRT", "SUB", "SUM", "SUM_ROWS", "TRI", "UNARY",
    ]),
    (OperationKind::Rows, &[
        "ARANGE", "ARGMAX", "ARGSORT", "GET_ROWS", "GET_ROWS_BACK", "ROPE", "ROPE_BACK", "SET_ROWS",
        "TIMESTEP_EMBEDDING", "TOP_K",
    ]),
    (OperationKind::Copy, &["ACC", "CONCAT", "CONT", "CPY", "DUP", "PAD", "PAD_REFLECT_1D", "REPEAT", "REPEAT_BACK", "ROLL", "SET"]),
    (OperationKind::Convolution, &[
        "COL2IM_1D", "CONV_2D", "CONV_2D_DW", "CONV_3D", "CONV_TRANSPOSE_1D", "CONV_TRANSPOSE_2D", "IM2COL", "IM2COL_3D",
        "IM2COL_BACK", "POOL_1D", "POOL_2D", "POOL_2D_BACK", "RWKV_WKV6", "RWKV_WKV7", "SSM_CONV", "SSM_SCAN", "UPSCALE",
        "WIN_PART", "WIN_UNPART",
    ]),
    (OperationKind::Input, &["NONE"]),
];
