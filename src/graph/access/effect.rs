//! The effect of running a node, by the name of its operation.

use crate::graph::Slots;

/// The effect of running a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: the operation is NONE.
    Nothing,
    /// Nothing: the node is a view of its source.
    View,
    /// The node's own memory, or that of its root when it is a view.
    Result,
    /// The node's own memory and that of these sources.
    Sources(Slots),
    /// Anything: the program's own function runs.
    Anything,
}

/// Operations that make views.
const VIEWS: [&str; 4] = ["PERMUTE", "RESHAPE", "TRANSPOSE", "VIEW"];

/// Operations that run a function of the program.
const CUSTOM: [&str; 6] = ["CUSTOM", "MAP_BINARY", "MAP_CUSTOM1", "MAP_CUSTOM2", "MAP_CUSTOM3", "MAP_UNARY"];

/// Operations of ggml 0.9.5, 0.26 and 0.28 that write their result and nothing else.
#[rustfmt::skip]
const PURE: &[&str] = &[
    "ACC", "ADD", "ADD1", "ADD_ID", "ADD_REL_POS", "ARANGE", "ARGMAX", "ARGSORT", "CLAMP", "COL2IM_1D", "CONCAT",
    "CONT", "CONV_2D", "CONV_2D_DW", "CONV_3D", "CONV_TRANSPOSE_1D", "CONV_TRANSPOSE_2D", "COS", "COUNT_EQUAL", "CPY",
    "CROSS_ENTROPY_LOSS", "CROSS_ENTROPY_LOSS_BACK", "CUMSUM", "DIAG", "DIAG_MASK_INF", "DIAG_MASK_ZERO", "DIV",
    "DSV4_HC_COMB", "DSV4_HC_POST", "DSV4_HC_PRE", "DUP", "FILL", "FLASH_ATTN_BACK", "FLASH_ATTN_EXT",
    "GATED_DELTA_NET", "GATED_LINEAR_ATTN", "GET_REL_POS", "GET_ROWS", "GET_ROWS_BACK", "GLU", "GROUP_NORM", "IM2COL",
    "IM2COL_3D", "IM2COL_BACK", "L2_NORM", "LEAKY_RELU", "LIGHTNING_INDEXER", "LOG", "MEAN", "MUL", "MUL_MAT",
    "MUL_MAT_ID", "NORM", "OUT_PROD", "PAD", "PAD_REFLECT_1D", "POOL_1D", "POOL_2D", "POOL_2D_BACK", "REPEAT",
    "REPEAT_BACK", "RMS_NORM", "RMS_NORM_BACK", "ROLL", "ROPE", "ROPE_BACK", "RWKV_WKV6", "RWKV_WKV7", "SCALE", "SET",
    "SET_ROWS", "SILU_BACK", "SIN", "SOFT_MAX", "SOFT_MAX_BACK", "SOLVE_TRI", "SQR", "SQRT", "SSM_CONV", "SSM_SCAN",
    "SUB", "SUM", "SUM_ROWS", "TIMESTEP_EMBEDDING", "TOP_K", "TOP_K_MASK", "TRI", "UNARY", "UPSCALE", "WIN_PART",
    "WIN_UNPART",
];

impl Effect {
    /// Returns the effect of an operation by ggml's name. An unknown operation is assumed to write its sources too, the
    /// worst that operations of ggml do.
    pub fn of(operation: &str) -> Self {
        match operation {
            "NONE" => Self::Nothing,
            name if VIEWS.contains(&name) => Self::View,
            name if CUSTOM.contains(&name) => Self::Anything,
            name if PURE.binary_search(&name).is_ok() => Self::Result,
            // The weight, which is also the result, and the two moments; not the gradient and the settings.
            "OPT_STEP_ADAMW" => Self::Sources(Slots::from_bits(0b1101)),
            "OPT_STEP_SGD" => Self::Sources(Slots::FIRST),
            _ => Self::Sources(Slots::ALL),
        }
    }

    /// Returns `true` if the node may change the memory of its source at this position.
    pub fn writes_source(self, position: usize) -> bool {
        match self {
            Self::Sources(slots) => slots.has(position),
            Self::Anything => true,
            Self::Nothing | Self::View | Self::Result => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_follow_from_operation_names() {
        assert!(PURE.is_sorted());
        let effects = ["NONE", "VIEW", "CPY", "MUL_MAT", "OPT_STEP_SGD", "MAP_CUSTOM1"].map(Effect::of);
        let weight = Effect::Sources(Slots::FIRST);
        let expected = [Effect::Nothing, Effect::View, Effect::Result, Effect::Result, weight, Effect::Anything];
        assert_eq!(effects, expected);
        assert_eq!(Effect::of("INVENTED_TOMORROW"), Effect::Sources(Slots::ALL));
    }

    #[test]
    fn optimizers_write_weights_and_moments_but_not_gradients_and_settings() {
        let written = |operation, sources: usize| -> Vec<usize> {
            (0..sources).filter(|&position| Effect::of(operation).writes_source(position)).collect()
        };
        assert_eq!(written("OPT_STEP_ADAMW", 5), [0, 2, 3]);
        assert_eq!(written("OPT_STEP_SGD", 3), [0]);
        assert_eq!(written("MUL_MAT", 2), [0; 0]);
        assert_eq!(written("INVENTED_TOMORROW", 10).len(), 10);
    }
}
