//! The sequences of the CUDA backend for which it compares addresses (`ggml_cuda_can_fuse` and
//! `ggml_cuda_check_fusion_memory_ranges` in `ggml-cuda.cu`), as of ggml 0.26. No source may have the memory of a result.
//!
//! Which products are fused depends on the device and on types too: here all those with the values of one token count.

use super::{Candidate, Pattern, edges};
use crate::graph::Op::{Add, AddId, Glu, Mul, MulMat, MulMatId, RmsNorm, Rope, SetRows, View};

pub const PATTERNS: [Pattern; 7] = [
    edges(&[MulMat, Add, MulMat, Add, Glu], &[[1, 0, 0], [3, 0, 2]], is_of_one_token),
    edges(&[MulMatId, AddId, MulMatId, AddId, Glu], &[[1, 0, 0], [3, 0, 2]], is_of_one_token),
    edges(&[MulMat, MulMat, Glu], &[], is_of_one_token),
    edges(&[MulMatId, MulMatId, Glu], &[], is_of_one_token),
    edges(&[RmsNorm, Mul, Rope, View, SetRows], &[[1, 0, 0], [2, 0, 1], [3, 0, 2], [4, 0, 3]], |_| true),
    edges(&[RmsNorm, Mul, Rope], &[[1, 0, 0], [2, 0, 1]], |_| true),
    edges(&[Rope, View, SetRows], &[[1, 0, 0], [2, 0, 1]], |_| true),
];

/// Two products with one source, the values of one token, and a GLU of both.
fn is_of_one_token(found: &Candidate<'_>) -> bool {
    let second = found.len / 2;
    let operands = [found.source(found.len - 1, 0), found.source(found.len - 1, 1)];
    let products = [Some(found.id(second - 1)), Some(found.id(found.len - 2))];
    let is_of_both = operands == products || operands == [products[1], products[0]];
    let [_, rows, matrices, _] = found.nodes.layout(found.id(0)).ne;
    let tokens = if found.sources(0) > 2 { matrices } else { rows };
    is_of_both && found.source(0, 1) == found.source(second, 1) && tokens == 1
}
