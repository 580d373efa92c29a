//! Sequences of operations that ggml's Vulkan backend runs as one kernel, as of ggml 0.26: it keeps them together when it
//! orders nodes, and fuses them where addresses allow it.

use crate::graph::Op::{
    self, Add, Argsort, Clamp, Cont, Cpy, Div, Dsv4HcPost, GetRows, Mul, Permute, Reshape, RmsNorm, Rope, Scale,
    SetRows, Sin, SoftMax, Sqr, Sqrt, SumRows, TopK, Unary, View,
};

/// Operations in a row, in the order of execution.
pub type Ops = &'static [Op];

/// Selections of experts.
pub const EXPERTS: [Ops; 5] = [
    &[SoftMax, Reshape, Argsort, View, GetRows, Reshape, SumRows, Clamp, Div, Reshape],
    &[Unary, Reshape, Add, Argsort, View, GetRows, Reshape, SumRows, Clamp, Div, Reshape],
    &[Unary, Sqrt, Reshape, Add, Argsort, View, GetRows, Reshape, SumRows, Clamp, Div, Reshape],
    &[SoftMax, Reshape, Argsort, View, GetRows],
    &[Argsort, View, GetRows, Reshape, SoftMax, Reshape],
];

/// A selection of rows by their scores.
pub const SELECTION: Ops = &[GetRows, Permute, Cont, Cpy, Reshape, Add, TopK];

/// A gate of several streams.
pub const STREAM_GATE: Ops = &[Scale, Unary, Scale, Dsv4HcPost];

/// An activation with a sine.
pub const SNAKE: Ops = &[Mul, Sin, Sqr, Mul, Add];

/// A norm with its scale, and what follows.
pub const SCALED_NORM: [Ops; 3] = [&[RmsNorm, Mul], &[RmsNorm, Mul, Add], &[RmsNorm, Mul, Add, Mul]];

/// Results that SET_ROWS puts into rows.
pub const WRITTEN_ROWS: [Ops; 3] =
    [&[RmsNorm, Mul, Rope, View, SetRows], &[RmsNorm, View, SetRows], &[Rope, View, SetRows]];

/// Unary operations that are fused with a product, by ggml's description.
pub const GATES: [&str; 4] = ["GELU", "SIGMOID", "SILU", "SOFTPLUS"];
