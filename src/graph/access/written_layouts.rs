//! Table of the layouts in which each operation can write its result.

use super::Strides;

/// Operations that write elements with any strides.
const ANYTHING: &[&str] = &["CONCAT", "CONT", "CONV_2D", "DUP", "UPSCALE"];

/// Operations that write rows with any strides between them.
#[rustfmt::skip]
const ROWS: &[&str] = &[
    "ADD1", "ADD_ID", "CUMSUM", "DIAG", "DIV", "FILL", "GROUP_NORM", "L2_NORM", "MEAN", "MUL", "NORM",
    "PAD_REFLECT_1D", "REPEAT", "REPEAT_BACK", "RMS_NORM", "RMS_NORM_BACK", "ROLL", "ROPE", "ROPE_BACK", "SOFT_MAX",
    "SSM_CONV", "SUB", "SUM_ROWS", "TRI",
];

/// Operations that write rows whose strides do not decrease.
const PADDED_ROWS: &[&str] = &["ADD", "GET_ROWS", "TIMESTEP_EMBEDDING"];

/// Operations that write the layout that ggml created, at any address. MUL_MAT would write padded rows too, where
/// ggml's CPU backend computes it; but other backends that compute in the same memory, such as BLAS, ignore the
/// strides.
#[rustfmt::skip]
const CONTIGUOUS: &[&str] = &[
    "ACC", "ARANGE", "ARGMAX", "ARGSORT", "CONV_2D_DW", "CONV_TRANSPOSE_1D", "CONV_TRANSPOSE_2D", "COS",
    "CROSS_ENTROPY_LOSS_BACK", "DIAG_MASK_INF", "DIAG_MASK_ZERO", "FLASH_ATTN_EXT", "GATED_LINEAR_ATTN",
    "GET_ROWS_BACK", "GLU", "IM2COL", "LEAKY_RELU", "LOG", "MUL_MAT", "MUL_MAT_ID", "OUT_PROD", "PAD", "POOL_1D",
    "POOL_2D", "RWKV_WKV6", "SCALE", "SET", "SILU_BACK", "SIN", "SOFT_MAX_BACK", "SOLVE_TRI", "SQR", "SQRT", "SUM",
    "UNARY", "WIN_PART", "WIN_UNPART",
];

const LISTS: [(&[&str], Strides); 4] = [
    (ANYTHING, Strides::Anything),
    (ROWS, Strides::Rows),
    (PADDED_ROWS, Strides::PaddedRows),
    (CONTIGUOUS, Strides::Contiguous),
];

impl Strides {
    /// Returns the layouts in which an operation can write its result, by ggml's name, for ggml 0.9.5 and 0.26.
    pub fn written_by(operation: &str) -> Self {
        let found = LISTS.iter().find(|(names, _)| names.binary_search(&operation).is_ok());
        found.map_or(Self::OnlyItsOwn, |(_, strides)| *strides)
    }

    /// Returns the names of all operations that can write more than [`Strides::OnlyItsOwn`].
    pub fn writers() -> impl Iterator<Item = &'static str> {
        LISTS.iter().flat_map(|(names, _)| names.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_name_each_operation_once() {
        assert!(LISTS.iter().all(|(names, _)| names.is_sorted()));
        let mut known: Vec<_> = Strides::writers().collect();
        known.sort_unstable();
        assert!(known.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(Strides::written_by("INVENTED_TOMORROW"), Strides::OnlyItsOwn);
    }
}
