//! Operations that ggml's Vulkan backend runs as one kernel where they follow each other.

/// Operations in a row, in the order of execution.
pub type Pattern = &'static [&'static str];

/// How many positions behind a node its partners are searched for.
pub const REACH: usize = 15;

/// Selecting experts, whose inputs stay live until the last operation. A SCALE right behind may belong to it.
pub const EXPERTS: [Pattern; 5] = [
    &["SOFT_MAX", "RESHAPE", "ARGSORT", "VIEW", "GET_ROWS", "RESHAPE", "SUM_ROWS", "CLAMP", "DIV", "RESHAPE"],
    &["UNARY", "RESHAPE", "ADD", "ARGSORT", "VIEW", "GET_ROWS", "RESHAPE", "SUM_ROWS", "CLAMP", "DIV", "RESHAPE"],
    &[
        "UNARY", "SQRT", "RESHAPE", "ADD", "ARGSORT", "VIEW", "GET_ROWS", "RESHAPE", "SUM_ROWS", "CLAMP", "DIV",
        "RESHAPE",
    ],
    &["SOFT_MAX", "RESHAPE", "ARGSORT", "VIEW", "GET_ROWS"],
    &["ARGSORT", "VIEW", "GET_ROWS", "RESHAPE", "SOFT_MAX", "RESHAPE"],
];

/// Selecting rows by their scores; none of its nodes is moved.
pub const SELECTION: Pattern = &["GET_ROWS", "PERMUTE", "CONT", "CPY", "RESHAPE", "ADD", "TOP_K"];

/// Others whose order is kept.
pub const KEPT: [Pattern; 7] = [
    &["MUL", "SIN", "SQR", "MUL", "ADD"],
    SELECTION,
    &["RMS_NORM", "MUL", "ADD", "MUL"],
    &["RMS_NORM", "MUL", "ADD"],
    &["RMS_NORM", "MUL", "ROPE", "VIEW", "SET_ROWS"],
    &["RMS_NORM", "VIEW", "SET_ROWS"],
    &["ROPE", "VIEW", "SET_ROWS"],
];

/// A gate, whose inputs stay live until its last operation.
pub const GATE: Pattern = &["SCALE", "UNARY", "SCALE", "DSV4_HC_POST"];

/// Pairs that are fused only if the second is the next node.
pub const ADJACENT: [(&str, &str); 6] = [
    ("MUL_MAT", "ADD"),
    ("MUL_MAT_ID", "ADD_ID"),
    ("MUL_MAT_ID", "MUL"),
    ("ADD", "ADD"),
    ("SSM_CONV", "ADD"),
    ("SSM_CONV", "UNARY"),
];

/// Pairs that are fused even if views are between them.
pub const APART: [(&str, &str); 2] = [("RMS_NORM", "MUL"), ("UNARY", "MUL")];

/// Unary operations that are fused with a product.
pub const GATES_OF_PRODUCTS: [&str; 4] = ["GELU", "SIGMOID", "SILU", "SOFTPLUS"];

/// Returns `true` for operations that compute nothing.
pub fn is_empty(op: &str) -> bool {
    matches!(op, "NONE" | "RESHAPE" | "TRANSPOSE" | "VIEW" | "PERMUTE")
}
