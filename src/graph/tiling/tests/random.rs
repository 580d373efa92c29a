//! Random graphs of operations with large intermediates: attention, convolutions, gated products, chains.

use crate::graph::{Flags, TensorId};
use crate::testing::Random;

use super::super::TileKind;
use super::case::Case;

/// A graph of up to four such pieces, one after the other or side by side.
pub fn random_case(random: &mut Random) -> Case {
    let mut case = Case::new();
    // Leafs come first in a real graph too.
    let pieces = 1 + random.below(3);
    let mut results = Vec::new();
    for _ in 0..pieces {
        let result = match random.below(6) {
            0 => attention(random, &mut case, [&[16, 24, 32, 37], &[1, 2, 4]]),
            1 => convolution(random, &mut case),
            2 => gated(random, &mut case),
            3 => routed(random, &mut case),
            4 => batched(random, &mut case),
            _ => chain(random, &mut case),
        };
        if random.chance(15) {
            case.flag(result, Flags::OUTPUT);
        }
        results.push(result);
    }
    // Later nodes keep some results live across the pieces; the last node is never tiled.
    for result in results {
        let ne = case.ne(result);
        case.node("UNARY", ne, &[result]);
    }
    let flags: Vec<TensorId> = (0..).take(case.kinds.len()).collect();
    if random.chance(30) {
        let id = flags[random.below(u32::try_from(flags.len()).expect("few")) as usize];
        case.kept[id as usize] = true;
    }
    case
}

/// A graph of an attention with many queries and heads.
pub fn random_attention(random: &mut Random) -> Case {
    let mut case = Case::new();
    let result = attention(random, &mut case, [&[32, 37], &[4, 8]]);
    let ne = case.ne(result);
    case.node("UNARY", ne, &[result]);
    case
}

fn pick(random: &mut Random, from: &[i64]) -> i64 {
    from[random.below(u32::try_from(from.len()).expect("few")) as usize]
}

/// One with some of these numbers of queries and of heads.
fn attention(random: &mut Random, case: &mut Case, [queries, heads]: [&[i64]; 2]) -> TensorId {
    let (keys, queries) = (pick(random, &[16, 32, 48]), pick(random, queries));
    let heads = pick(random, heads);
    let shared = if random.chance(30) { 1 } else { heads };
    let batches = pick(random, &[1, 1, 2]);
    let key = case.leaf([4, keys, shared, batches]);
    let mut query = case.leaf([4, queries, heads, batches]);
    if random.chance(40) {
        let given = case.leaf([4, heads, queries, batches]);
        query = case.permute(given, [0, 2, 1, 3]);
    }
    let value = case.leaf([keys, 4, shared, batches]);
    let mut scores = case.mul_mat(key, query);
    let ne = case.ne(scores);
    if random.chance(50) {
        scores = case.node("SCALE", ne, &[scores]);
    }
    if random.chance(20) {
        let bias = case.leaf([keys, 1, 1, 1]);
        scores = case.node("ADD", ne, &[scores, bias]);
    }
    let mut sources = vec![scores];
    if random.chance(50) {
        // Masks may have more rows than there are queries.
        sources.push(case.leaf([keys, queries + pick(random, &[0, 0, 11]), 1, 1]));
    }
    let has_mask = Some(sources.len() > 1);
    if random.chance(40) {
        sources.push(case.leaf([heads, 1, 1, 1]));
    }
    let weights = case.node("SOFT_MAX", ne, &sources);
    case.kinds[weights as usize] = TileKind::SoftMax { same_slopes: random.chance(50), has_mask };
    if random.chance(10) {
        case.node("UNARY", ne, &[scores]);
    }
    let mixed = case.mul_mat(value, weights);
    let heads_last = case.permute(mixed, [0, 2, 1, 3]);
    let ne = case.ne(heads_last);
    case.node("CONT", ne, &[heads_last])
}

fn convolution(random: &mut Random, case: &mut Case) -> TensorId {
    let (width, height) = (pick(random, &[8, 12]), pick(random, &[8, 13, 16]));
    let (channels, filters) = (pick(random, &[2, 3]), pick(random, &[4, 5]));
    let batches = pick(random, &[1, 1, 2]);
    case.convolves = true;
    let kernel = case.leaf([3, 3, channels, filters]);
    let image = case.leaf([width, height, channels, batches]);
    let ne = case.ne(image);
    let input = case.node("UNARY", ne, &[image]);
    let stride = pick(random, &[1, 1, 2]);
    let extent = |extent: i64| (extent - 1) / stride + 1;
    let (width, height) = (extent(width), extent(height));
    let columns = case.node("IM2COL", [9 * channels, width, height, batches], &[kernel, input]);
    let columns = case.reshape(columns, [9 * channels, width * height * batches, 1, 1]);
    let weights = case.reshape(kernel, [9 * channels, filters, 1, 1]);
    let product = case.mul_mat(columns, weights);
    let planes = case.reshape(product, [width, height, batches, filters]);
    let planes = case.permute(planes, [0, 1, 3, 2]);
    let ne = case.ne(planes);
    let packed = case.node("CONT", ne, &[planes]);
    let bias = case.leaf([1, 1, filters, 1]);
    case.node("ADD", ne, &[packed, bias])
}

fn gated(random: &mut Random, case: &mut Case) -> TensorId {
    let (width, hidden) = (pick(random, &[4, 8]), pick(random, &[32, 64]));
    let tokens = pick(random, &[16, 32, 40, 70]);
    let input = case.leaf([width, tokens, 1, 1]);
    let [up, gate] = [0, 1].map(|_| case.leaf([width, hidden, 1, 1]));
    let down = case.leaf([hidden, width, 1, 1]);
    let normed = case.node("RMS_NORM", [width, tokens, 1, 1], &[input]);
    let up = case.mul_mat(up, normed);
    let gate = case.mul_mat(gate, normed);
    let both = case.node("GLU", [hidden, tokens, 1, 1], &[gate, up]);
    case.mul_mat(down, both)
}

/// A product in batches that is read twice, at times through rows that begin inside of each other.
fn batched(random: &mut Random, case: &mut Case) -> TensorId {
    let (width, rows) = (pick(random, &[4, 8]), pick(random, &[16, 28, 32]));
    let (tokens, heads, batches) = (pick(random, &[8, 14, 27]), pick(random, &[1, 2, 4]), pick(random, &[1, 2, 3]));
    let input = case.leaf([width, tokens, heads, batches]);
    let weight = case.leaf([width, rows, 1, pick(random, &[1, batches])]);
    let product = case.mul_mat(weight, input);
    let ne = case.ne(product);
    let first = case.node("UNARY", ne, &[product]);
    if random.chance(40) {
        let view = case.overlapping(first, random);
        let ne = case.ne(view);
        return case.node("CONT", ne, &[view]);
    }
    let other = if random.chance(50) {
        case.node("SOFT_MAX", ne, &[first])
    } else {
        let weight = case.leaf([rows, rows, 1, 1]);
        case.mul_mat(weight, first)
    };
    case.node("ADD", ne, &[other, first])
}

/// A gated network whose experts are chosen by token.
fn routed(random: &mut Random, case: &mut Case) -> TensorId {
    let (width, hidden, experts) = (4, pick(random, &[16, 32]), 3);
    let (used, tokens) = (pick(random, &[1, 2]), pick(random, &[16, 21, 40]));
    let input = case.leaf([width, tokens, 1, 1]);
    let [up, gate] = [0, 1].map(|_| case.leaf([width, hidden, experts, 1]));
    let down = case.leaf([hidden, width, experts, 1]);
    let chosen = case.leaf([experts, tokens, 1, 1]);
    let ids = case.range(chosen, 0, 0, used);
    let normed = case.node("RMS_NORM", [width, tokens, 1, 1], &[input]);
    let normed = case.reshape(normed, [width, 1, tokens, 1]);
    let [up, gate] =
        [up, gate].map(|weights| case.node("MUL_MAT_ID", [hidden, used, tokens, 1], &[weights, normed, ids]));
    let both = case.node("GLU", [hidden, used, tokens, 1], &[gate, up]);
    case.node("MUL_MAT_ID", [width, used, tokens, 1], &[down, both, ids])
}

fn chain(random: &mut Random, case: &mut Case) -> TensorId {
    let ne = [pick(random, &[8, 16]), pick(random, &[8, 16, 21]), pick(random, &[1, 3, 4]), pick(random, &[1, 1, 2])];
    let mut last = case.leaf(ne);
    for _ in 0..2 + random.below(6) {
        let ne = case.ne(last);
        last = match random.below(8) {
            0 => {
                let bias = case.leaf([ne[0], 1, 1, 1]);
                case.node("MUL", ne, &[last, bias])
            }
            1 => case.node("NORM", ne, &[last]),
            2 => {
                let to = [[1, 0, 2, 3], [0, 2, 1, 3], [2, 1, 0, 3]][random.below(3) as usize];
                let moved = case.permute(last, to);
                let ne = case.ne(moved);
                case.node("CONT", ne, &[moved])
            }
            3 => case.reshape(last, [ne[0], ne[1] * ne[2], ne[3], 1]),
            4 if ne[1] > 4 => {
                let tile = case.range(last, 1, 2, ne[1] - 3);
                let ne = case.ne(tile);
                case.node("CONT", ne, &[tile])
            }
            5 => {
                let weight = case.leaf([ne[0], pick(random, &[32, 64]), 1, 1]);
                case.mul_mat(weight, last)
            }
            _ => case.node("UNARY", ne, &[last]),
        };
    }
    let ne = case.ne(last);
    case.node("CONT", ne, &[last])
}
