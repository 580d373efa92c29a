//! The sequences of the Vulkan backend (`ggml_backend_vk_graph_compute` in `ggml-vulkan.cpp`), as of ggml 0.26, on a
//! device that can run all of them. Parameters of operations are not looked at: every ROPE counts as one whose mode the
//! kernels know.

use crate::graph::Op::{self, Add, AddId, Mul, MulMat, MulMatId, Reshape, RmsNorm, Rope, SsmConv, Unary};
use crate::graph::TensorId;
use crate::graph::kernels::fusions::{EXPERTS, GATES, Ops, SCALED_NORM, SELECTION, SNAKE, STREAM_GATE, WRITTEN_ROWS};

use super::{ALL, Candidate, Condition, Links, Pattern, chain, edges};

/// Sources of all nodes but the first may have the memory of the result.
const BUT_FIRST: u16 = ALL - 1;

const ADDS: [Op; 9] = [Add; 9];

/// More experts than this are selected by single kernels.
const MOST_EXPERTS: i64 = 512;

pub const PATTERNS: [Pattern; 31] = [
    adds(9),
    adds(8),
    adds(7),
    adds(6),
    adds(5),
    adds(4),
    adds(3),
    adds(2),
    chain(&[MulMat, Add, Add], BUT_FIRST, |found| is_biased(found, 1) && is_biased(found, 2)),
    chain(&[MulMat, Add], BUT_FIRST, |found| is_biased(found, 1)),
    chain(&[MulMatId, AddId, Mul], BUT_FIRST, |found| is_expert_biased(found) && is_expert_scaled(found, 2)),
    chain(&[MulMatId, AddId], BUT_FIRST, is_expert_biased),
    chain(&[MulMatId, Mul], BUT_FIRST, |found| is_expert_scaled(found, 1)),
    edges(WRITTEN_ROWS[0], &[[1, 0, 0], [2, 0, 1], [3, 0, 2], [4, 0, 3]], |found| {
        is_rotated(found) && writes_rows(found, 2)
    }),
    chain(&[RmsNorm, Mul, Rope], BUT_FIRST, |found| is_scaled(found) && is_rotated(found)),
    edges(STREAM_GATE, &[[1, 0, 0], [2, 0, 1], [3, 2, 2]], |found| found.is(1, "SIGMOID")),
    chain(SCALED_NORM[2], ALL, |found| is_scaled(found) && is_added(found) && is_scaled_by_number(found)),
    chain(SCALED_NORM[1], ALL, |found| is_scaled(found) && is_added(found)),
    edges(WRITTEN_ROWS[1], &[[1, 0, 0], [2, 0, 1]], |found| writes_rows(found, 0)),
    chain(SCALED_NORM[0], ALL, is_scaled),
    Pattern { exact_aliases: ALL, ..edges(&[Unary, Mul], &[], is_gate) },
    chain(&[SsmConv, Add, Unary], BUT_FIRST, |found| has_channel_bias(found) && found.is(2, "SILU")),
    chain(&[SsmConv, Unary], BUT_FIRST, |found| found.is(1, "SILU")),
    edges(WRITTEN_ROWS[2], &[[1, 0, 0], [2, 0, 1]], |found| writes_rows(found, 0)),
    chain(SNAKE, ALL, is_snake),
    edges(SELECTION, &[[1, 0, 0], [2, 0, 1], [4, 0, 3], [5, 0, 2], [5, 1, 4], [6, 0, 5]], |_| true),
    experts(
        EXPERTS[0],
        &[
            [1, 0, 0],
            [2, 0, 0],
            [3, 0, 2],
            [4, 0, 1],
            [4, 1, 3],
            [5, 0, 4],
            [6, 0, 5],
            [7, 0, 6],
            [8, 0, 5],
            [8, 1, 7],
            [9, 0, 8],
        ],
        3,
        |found| selects(found, [0, 2, 4]),
    ),
    experts(
        EXPERTS[1],
        &[
            [1, 0, 0],
            [2, 0, 0],
            [3, 0, 2],
            [4, 0, 3],
            [5, 0, 1],
            [5, 1, 4],
            [6, 0, 5],
            [7, 0, 6],
            [8, 0, 7],
            [9, 0, 6],
            [9, 1, 8],
            [10, 0, 9],
        ],
        4,
        |found| found.is(0, "SIGMOID") && chooses(found, 0, 5),
    ),
    experts(
        EXPERTS[2],
        &[
            [1, 0, 0],
            [2, 0, 1],
            [3, 0, 1],
            [4, 0, 3],
            [5, 0, 4],
            [6, 0, 2],
            [6, 1, 5],
            [7, 0, 6],
            [8, 0, 7],
            [9, 0, 8],
            [10, 0, 7],
            [10, 1, 9],
            [11, 0, 10],
        ],
        5,
        |found| found.is(0, "SOFTPLUS") && chooses(found, 0, 6),
    ),
    experts(EXPERTS[3], &[[1, 0, 0], [2, 0, 0], [3, 0, 2], [4, 0, 1], [4, 1, 3]], 3, |found| selects(found, [0, 2, 4])),
    experts(EXPERTS[4], &[[1, 0, 0], [2, 1, 1], [3, 0, 2], [4, 0, 3], [5, 0, 4]], 1, |found| selects(found, [4, 0, 2])),
];

/// Several additions, whose operands all have one shape.
const fn adds(count: usize) -> Pattern {
    let (ops, _) = ADDS.split_at(count);
    chain(ops, ALL, |found| {
        let alike = |operand: TensorId| {
            let nodes = found.nodes;
            nodes.same_shape(operand, found.id(0)) && nodes.is_f32(operand) && nodes.is_aligned(operand)
        };
        (0..found.len).all(|at| alike(found.id(at)) && (0..2).all(|slot| found.source(at, slot).is_some_and(alike)))
    })
}

/// A selection of experts, which writes their weights, and their numbers to the view at `also_written`.
const fn experts(ops: Ops, links: &'static [[usize; 3]], also_written: usize, condition: Condition) -> Pattern {
    Pattern {
        also_written: Some(also_written),
        takes_scale: true,
        links: Links::Edges(links),
        ..edges(ops, links, condition)
    }
}

/// The product of a matrix and one row, with a bias at `at` of its layout.
fn is_biased(found: &Candidate<'_>, at: usize) -> bool {
    let (nodes, product) = (found.nodes, found.id(at - 1));
    let is_like_product = |bias: TensorId| {
        nodes.same_type(product, bias)
            && nodes.same_shape(product, bias)
            && nodes.same_strides(product, bias)
            && nodes.is_aligned(bias)
    };
    nodes.rows(product) == 1 && found.operand(at).is_some_and(is_like_product)
}

/// The products of experts for few tokens.
fn has_few_tokens(found: &Candidate<'_>) -> bool {
    found.source(0, 2).is_some_and(|experts| found.nodes.layout(experts).ne[1] <= 8)
}

fn is_plain_operand(found: &Candidate<'_>, operand: TensorId) -> bool {
    let nodes = found.nodes;
    nodes.same_type(found.id(0), operand) && nodes.is_contiguous(operand) && nodes.is_aligned(operand)
}

fn is_expert_biased(found: &Candidate<'_>) -> bool {
    found.source(1, 0) == Some(found.id(0))
        && found.source(0, 2) == found.source(1, 2)
        && has_few_tokens(found)
        && found.source(1, 1).is_some_and(|bias| is_plain_operand(found, bias))
}

fn is_expert_scaled(found: &Candidate<'_>, at: usize) -> bool {
    let experts = found.nodes.layout(found.id(at)).ne[1];
    let is_by_expert = |scale: TensorId| found.nodes.layout(scale).ne == [1, experts, 1, 1];
    found.source(at, 0) == Some(found.id(at - 1))
        && has_few_tokens(found)
        && found.source(at, 1).is_some_and(|scale| is_by_expert(scale) && is_plain_operand(found, scale))
}

/// A norm at the beginning, and a product with it.
fn is_scaled(found: &Candidate<'_>) -> bool {
    let (nodes, norm) = (found.nodes, found.id(0));
    let [Some(one), Some(other)] = [found.source(1, 0), found.source(1, 1)] else { return false };
    let has_rows = |operand| nodes.is_f32(operand) && nodes.is_contiguous_from(operand, 1);
    has_rows(one) && has_rows(other) && (norm != other || nodes.same_shape(one, norm))
}

/// A norm, a product and a ROPE at the beginning, all without gaps.
fn is_rotated(found: &Candidate<'_>) -> bool {
    (0..3).all(|at| found.nodes.is_contiguous(found.id(at))) && found.nodes.layout(found.id(1)).ne[0] <= 1024
}

/// A sum at the third place with an operand of its shape.
fn is_added(found: &Candidate<'_>) -> bool {
    let (nodes, sum) = (found.nodes, found.id(2));
    let is_plain = |operand| {
        nodes.is_f32(operand)
            && nodes.same_shape(sum, operand)
            && nodes.is_contiguous(operand)
            && nodes.is_aligned(operand)
    };
    nodes.is_contiguous(sum) && found.operand(2).is_some_and(is_plain)
}

/// A product at the fourth place with a single number.
fn is_scaled_by_number(found: &Candidate<'_>) -> bool {
    let nodes = found.nodes;
    nodes.is_contiguous(found.id(3))
        && found
            .operand(3)
            .is_some_and(|scale| nodes.elements(scale) == 1 && nodes.is_f32(scale) && nodes.is_aligned(scale))
}

/// A view of the result at `at` as rows, and the SET_ROWS of it.
fn writes_rows(found: &Candidate<'_>, at: usize) -> bool {
    let (nodes, result) = (found.nodes, found.nodes.layout(found.id(at)));
    let (view, rows) = (found.id(at + 1), found.id(at + 2));
    let Some(numbers) = found.source(at + 2, 1) else { return false };
    let ne = nodes.layout(view).ne;
    result.ne[3] == 1
        && nodes.layout(numbers).nb[0] == 8
        && matches!(nodes.layout(rows).nb[0], 2 | 4)
        && nodes.is_contiguous(numbers)
        && nodes.is_aligned(numbers)
        && nodes.is_contiguous(view)
        && ne == [result.ne[0] * result.ne[1], result.ne[2], 1, 1]
        && nodes.elements(numbers) == result.ne[2]
}

/// The product of an activation and an operand that repeats to it, or to which it repeats.
fn is_gate(found: &Candidate<'_>) -> bool {
    let (nodes, gate, product) = (found.nodes, found.id(0), found.id(1));
    let (Some(first), Some(operand)) = (found.source(1, 0), found.operand(1)) else { return false };
    let (from, to) = if first == gate { (operand, gate) } else { (gate, first) };
    let repeats = nodes.layout(to).ne.iter().zip(&nodes.layout(from).ne).all(|(to, from)| *from > 0 && to % from == 0);
    let has_rows = |source: TensorId| nodes.is_contiguous_from(source, 1);
    GATES.into_iter().any(|desc| found.is(0, desc))
        && (first == gate || found.source(1, 1) == Some(gate))
        && matches!(nodes.layout(gate).nb[0], 2 | 4)
        && nodes.same_type(gate, product)
        && nodes.same_type(gate, operand)
        && has_rows(operand)
        && found.source(0, 0).is_some_and(has_rows)
        && repeats
}

fn has_channel_bias(found: &Candidate<'_>) -> bool {
    let (nodes, channels) = (found.nodes, found.nodes.layout(found.id(0)).ne[0]);
    found.operand(1).is_some_and(|bias| {
        nodes.is_f32(bias) && nodes.is_aligned(bias) && nodes.layout(bias).ne == [channels, 1, 1, 1]
    })
}

/// An activation with one factor inside of its sine and another one outside, by channel.
fn is_snake(found: &Candidate<'_>) -> bool {
    let nodes = found.nodes;
    let of_first = |slot| found.source(0, slot);
    let [Some(one), Some(other)] = [of_first(0), of_first(1)] else { return false };
    let (input, inner) = if nodes.same_shape(found.id(0), one) { (one, other) } else { (other, one) };
    let (Some(outer), Some(added)) = (found.operand(3), found.operand(4)) else { return false };
    let [_, channels, third, fourth] = nodes.layout(input).ne;
    added == input
        && [third, fourth] == [1, 1]
        && nodes.same_shape(inner, outer)
        && nodes.layout(inner).ne == [1, channels, 1, 1]
        && [inner, outer].into_iter().all(|factor| nodes.is_f32(factor) && nodes.is_contiguous(factor))
        && [input, found.id(4)].into_iter().all(|whole| nodes.is_contiguous(whole))
        && (0..5).all(|at| nodes.same_type(found.id(at), input))
}

/// The scores of experts, without a mask, from which GET_ROWS takes those of the chosen ones. The node at `scored` computes
/// scores or weights, that at `chosen` is GET_ROWS.
fn chooses(found: &Candidate<'_>, scored: usize, chosen: usize) -> bool {
    let nodes = found.nodes;
    let is_contiguous = |tensor: TensorId| nodes.is_contiguous(tensor);
    nodes.layout(found.id(scored)).ne[0] <= MOST_EXPERTS
        && found.sources(scored) == 1
        && found.source(scored, 0).is_some_and(is_contiguous)
        && is_contiguous(found.id(found.len - 1))
        && found.source(chosen, 0).is_some_and(|rows| nodes.graph.tensor(rows).op == Reshape)
}

/// A choice by the scores that GET_ROWS takes rows of, sorted by the ARGSORT at `sorted`.
fn selects(found: &Candidate<'_>, [scored, sorted, chosen]: [usize; 3]) -> bool {
    let scores = found.source(chosen, 0).and_then(|rows| found.nodes.graph.sources(rows).first());
    chooses(found, scored, chosen) && scores.copied() == found.source(sorted, 0)
}
