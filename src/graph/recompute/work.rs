//! The floating-point operations of a node, by its operation and shapes.
//!
//! The table counts multiplications, additions and the like of ggml's CPU kernels, a few for a transcendental function.
//! What moves data counts one per element. It is for comparing graphs, not for predicting times.

use crate::graph::{Graph, Layout, TensorId};

/// How the operations of a node are counted.
#[derive(Clone, Copy, Debug)]
enum Count {
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

/// By ggml's name of the operation.
#[rustfmt::skip]
const COUNTS: &[(&str, Count)] = &[
    ("ARGSORT", Count::PerElement(10)),
    ("CONV_2D", Count::Convolution),
    ("CONV_2D_DW", Count::Convolution),
    ("CONV_3D", Count::Convolution),
    ("CONV_TRANSPOSE_1D", Count::TransposedConvolution),
    ("CONV_TRANSPOSE_2D", Count::TransposedConvolution),
    ("COS", Count::PerElement(8)),
    ("COUNT_EQUAL", Count::PerElementOfFirst(1)),
    ("CROSS_ENTROPY_LOSS", Count::PerElementOfFirst(12)),
    ("CROSS_ENTROPY_LOSS_BACK", Count::PerElement(12)),
    ("FLASH_ATTN_BACK", Count::Attention),
    ("FLASH_ATTN_EXT", Count::Attention),
    ("GATED_DELTA_NET", Count::Recurrence(6)),
    ("GATED_LINEAR_ATTN", Count::Recurrence(5)),
    ("GLU", Count::PerElement(11)),
    ("GROUP_NORM", Count::PerElement(7)),
    ("L2_NORM", Count::PerElement(3)),
    ("LOG", Count::PerElement(8)),
    ("MEAN", Count::PerElementOfFirst(1)),
    ("MUL_MAT", Count::ProductsAlong(0)),
    ("MUL_MAT_ID", Count::ProductsAlong(0)),
    ("NONE", Count::Free),
    ("NORM", Count::PerElement(7)),
    ("OPT_STEP_ADAMW", Count::PerElement(14)),
    ("OPT_STEP_SGD", Count::PerElement(3)),
    ("OUT_PROD", Count::ProductsAlong(1)),
    ("PERMUTE", Count::Free),
    ("POOL_1D", Count::PerElementOfFirst(1)),
    ("POOL_2D", Count::PerElementOfFirst(1)),
    ("REPEAT_BACK", Count::PerElementOfFirst(1)),
    ("RESHAPE", Count::Free),
    ("RMS_NORM", Count::PerElement(4)),
    ("RMS_NORM_BACK", Count::PerElement(9)),
    ("ROPE", Count::PerElement(3)),
    ("ROPE_BACK", Count::PerElement(3)),
    ("RWKV_WKV6", Count::Recurrence(5)),
    ("RWKV_WKV7", Count::Recurrence(7)),
    ("SILU_BACK", Count::PerElement(14)),
    ("SIN", Count::PerElement(8)),
    ("SOFT_MAX", Count::PerElement(13)),
    ("SOFT_MAX_BACK", Count::PerElement(4)),
    ("SOLVE_TRI", Count::ProductsAlong(0)),
    ("SSM_CONV", Count::ProductsAlong(0)),
    ("SSM_SCAN", Count::Recurrence(5)),
    ("SUM", Count::PerElementOfFirst(1)),
    ("SUM_ROWS", Count::PerElementOfFirst(1)),
    ("TRANSPOSE", Count::Free),
    ("UNARY", Count::PerElement(10)),
    ("VIEW", Count::Free),
];

/// Returns the floating-point operations of a node with ggml's name of its operation.
pub fn work_of(graph: &Graph, node: TensorId, operation: &str) -> u64 {
    let count = match COUNTS.binary_search_by_key(&operation, |(name, _)| name) {
        Ok(at) => COUNTS[at].1,
        Err(_) => Count::PerElement(1),
    };
    let result = graph.layout(node);
    let source = |slot: usize| graph.sources(node).get(slot).map_or(result, |&source| graph.layout(source));
    let product = |factors: &[u64]| factors.iter().fold(1, |all: u64, &factor| all.saturating_mul(factor));
    match count {
        Count::Free => 0,
        Count::PerElement(each) => product(&[each, elements(result)]),
        Count::PerElementOfFirst(each) => product(&[each, elements(source(0))]),
        Count::ProductsAlong(dimension) => product(&[2, elements(result), extent(source(0), dimension)]),
        Count::Convolution => {
            let filter = (0..3).map(|dimension| extent(source(0), dimension)).product();
            product(&[2, elements(result), filter])
        }
        Count::TransposedConvolution => {
            let input = source(1);
            product(&[2, elements(source(0)), extent(input, 0), if is_image(input) { extent(input, 1) } else { 1 }])
        }
        Count::Attention => {
            let (queries, keys, values) = (source(0), source(1), source(2));
            let scores = product(&[extent(queries, 1), extent(queries, 2), extent(queries, 3), extent(keys, 1)]);
            scores.saturating_mul(2 * (extent(queries, 0) + extent(values, 0)) + 13)
        }
        Count::Recurrence(each) => product(&[each, elements(result), extent(source(0), 0)]),
    }
}

fn extent(layout: &Layout, dimension: usize) -> u64 {
    layout.ne[dimension].unsigned_abs()
}

fn elements(layout: &Layout) -> u64 {
    (0..4).fold(1, |all: u64, dimension| all.saturating_mul(extent(layout, dimension)))
}

/// Returns `true` if the layout has rows of a picture in its second dimension and channels in its third.
fn is_image(layout: &Layout) -> bool {
    extent(layout, 2) > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how the documentation describes a way of counting.
    fn described(count: Count) -> String {
        match count {
            Count::Free => "none".to_owned(),
            Count::PerElement(each) => format!("{each} for each element of the result"),
            Count::PerElementOfFirst(each) => format!("{each} for each element of the first source"),
            Count::ProductsAlong(dimension) => {
                format!("2 for each element of the result and `ne[{dimension}]` of the first source")
            }
            Count::Convolution => "2 for each element of the result and of a filter".to_owned(),
            Count::TransposedConvolution => "2 for each element of the filters and position of the input".to_owned(),
            Count::Attention => {
                "for each query and key, twice the widths of the head in keys and in values, and 13".to_owned()
            }
            Count::Recurrence(each) => format!("{each} for each element of the result and width of a head"),
        }
    }

    #[test]
    fn documentation_has_the_table() {
        let page = include_str!("../../../docs/recomputation.md");
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for &(name, count) in COUNTS {
            let description = described(count);
            match groups.iter_mut().find(|(other, _)| *other == description) {
                Some((_, names)) => names.push(name),
                None => groups.push((description, vec![name])),
            }
        }
        groups.sort();
        let rows: String =
            groups.iter().map(|(count, names)| format!("| {count} | `{}` |\n", names.join("`, `"))).collect();
        let rest = "| 1 for each element of the result | all others |\n";
        let table = format!("| floating-point operations | of |\n|---|---|\n{rows}{rest}");
        assert!(page.contains(&table), "docs/recomputation.md lacks this table:\n{table}");
    }

    #[test]
    fn names_are_sorted() {
        assert!(COUNTS.is_sorted_by(|(one, _), (other, _)| one < other), "they are searched by halves");
    }
}
