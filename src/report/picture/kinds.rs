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

    /// Returns the colour, from the palette of Okabe and Ito, which is safe for any kind of colour vision, and two greys that stay
    /// apart from it.
    pub fn colour(self) -> &'static str {
        match self {
            Self::Product => "#0072b2",
            Self::Attention => "#d55e00",
            Self::Norm => "#009e73",
            Self::Elementwise => "#56b4e9",
            Self::Rows => "#e69f00",
            Self::Copy => "#cc79a7",
            Self::Convolution => "#f0e442",
            Self::Input => "#b9c0c8",
            Self::Other => "#4b5058",
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

#[cfg(test)]
mod tests {
    use super::OperationKind;

    /// By kind of colour vision, how much of red, green and blue light is seen as red, green and blue (Machado, Oliveira and Fernandes
    /// 2009, severity 1).
    const VISIONS: [(&str, [[f64; 3]; 3]); 4] = [
        ("full", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "without red",
            [
                [0.152_286, 1.052_583, -0.204_868],
                [0.114_503, 0.786_281, 0.099_216],
                [-0.003_882, -0.048_116, 1.051_998],
            ],
        ),
        (
            "without green",
            [[0.367_322, 0.860_646, -0.227_968], [0.280_085, 0.672_501, 0.047_413], [-0.011_820, 0.042_940, 0.968_881]],
        ),
        (
            "without blue",
            [
                [1.255_528, -0.076_749, -0.178_779],
                [-0.078_411, 0.930_809, 0.147_602],
                [0.004_733, 0.691_367, 0.303_900],
            ],
        ),
    ];
    /// The ground of the map in light and dark, as in style.rs.
    const GROUNDS: [&str; 2] = ["#f4f6f8", "#181e25"];

    fn light(colour: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let channel = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).expect("two digits")) / 255.0;
            if channel <= 0.040_45 { channel / 12.92 } else { ((channel + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn times(matrix: &[[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(vector).map(|(one, other)| one * other).sum())
    }

    /// The colour in OKLab, in which distances are as they are seen.
    fn seen(colour: &str, vision: &[[f64; 3]; 3]) -> [f64; 3] {
        const CONES: [[f64; 3]; 3] =
            [[0.412_221, 0.536_333, 0.051_446], [0.211_903, 0.680_700, 0.107_397], [0.088_302, 0.281_719, 0.629_979]];
        const LAB: [[f64; 3]; 3] = [
            [0.210_454, 0.793_618, -0.004_072],
            [1.977_998, -2.428_592, 0.450_594],
            [0.025_904, 0.782_772, -0.808_676],
        ];
        times(&LAB, times(&CONES, times(vision, light(colour))).map(|cone| cone.max(0.0).cbrt()))
    }

    #[test]
    fn colours_stay_apart_in_every_kind_of_colour_vision() {
        let kinds = OperationKind::ALL.map(|kind| (kind.name(), kind.colour()));
        let colours: Vec<(&str, &str)> =
            kinds.into_iter().chain(GROUNDS.map(|ground| ("the ground", ground))).collect();
        for (vision, matrix) in &VISIONS {
            for (index, (one, colour)) in colours.iter().enumerate() {
                for (other, another) in &colours[index + 1..] {
                    let [one_seen, other_seen] = [colour, another].map(|colour| seen(colour, matrix));
                    let distance: f64 = one_seen.iter().zip(other_seen).map(|(one, other)| (one - other).powi(2)).sum();
                    assert!(distance.sqrt() > 0.07, "{one} and {other}, {vision}: {}", distance.sqrt());
                }
            }
        }
    }
}
