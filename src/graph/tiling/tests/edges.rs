//! Tensors that are never tiled, and graphs with nothing to tile.

use crate::graph::tests::sketch::List;
use crate::graph::{Flags, NotChanged, Op, PlanError, Rules, TensorId};
use crate::placement::Bytes;

use super::super::{Role, TileKind, TilingLimits};
use super::case::{Case, ELEMENT};
use super::values::assert_values;

/// A large result between two products: `[8, 64] x [8, 64] -> [64, 64] -> [16, 64]`. Returns it.
fn product(case: &mut Case) -> TensorId {
    let [weight, input] = [0, 1].map(|_| case.leaf([8, 64, 1, 1]));
    let down = case.leaf([64, 16, 1, 1]);
    let large = case.mul_mat(weight, input);
    let small = case.mul_mat(down, large);
    case.node("UNARY", [16, 64, 1, 1], &[small]);
    large
}

fn is_tiled(case: &Case, tensor: TensorId) -> bool {
    let found = case.tile(Rules::ALL, 0);
    assert_values(case, &found);
    found.tiled.iter().any(|tiled| tiled.tensor == tensor)
}

#[test]
fn large_results_are_tiled() {
    let mut case = Case::new();
    let large = product(&mut case);
    assert!(is_tiled(&case, large));
}

#[test]
fn experts_of_tokens_are_tiled() {
    let mut case = Case::new();
    let (width, hidden, tokens) = (16, 64, 64);
    let experts = case.leaf([width, hidden, 4, 1]);
    let down = case.leaf([hidden, width, 4, 1]);
    let input = case.leaf([width, 1, tokens, 1]);
    let ids = case.leaf([2, tokens, 1, 1]);
    let large = case.node("MUL_MAT_ID", [hidden, 2, tokens, 1], &[experts, input, ids]);
    let small = case.node("MUL_MAT_ID", [width, 2, tokens, 1], &[down, large, ids]);
    case.node("UNARY", [width, 2, tokens, 1], &[small]);
    assert!(is_tiled(&case, large));
}

/// A change of a case around its large result.
type Change = fn(&mut Case, TensorId);

#[test]
fn what_others_read_is_not_tiled() {
    let changes: [(&str, Change); 6] = [
        ("an output", |case, large| case.flag(large, Flags::OUTPUT)),
        ("a parameter", |case, large| case.flag(large, Flags::PARAM)),
        ("a loss", |case, large| case.flag(large, Flags::LOSS)),
        ("retained", |case, large| case.sketch.retain(large, None)),
        ("kept", |case, large| case.kept[large as usize] = true),
        ("never read", |case, large| {
            let ne = case.ne(large);
            let view = case.reshape(large, [ne[0] * ne[1], 1, 1, 1]);
            case.flag(view, Flags::OUTPUT);
            let last = case.ne(view);
            case.node("UNARY", last, &[view]);
        }),
    ];
    for (what, change) in changes {
        let mut case = Case::new();
        let large = product(&mut case);
        change(&mut case, large);
        assert!(!is_tiled(&case, large), "{what} is tiled");
    }
}

/// Programs may read such a result after the graph: ggml-alloc keeps its memory.
#[test]
fn results_that_no_node_reads_are_computed() {
    let mut case = Case::new();
    let [weight, input] = [0, 1].map(|_| case.leaf([8, 64, 1, 1]));
    let large = case.mul_mat(weight, input);
    let unread = case.node("UNARY", [64, 64, 1, 1], &[large]);
    let other = case.node("UNARY", [64, 64, 1, 1], &[large]);
    let unread_view = case.reshape(other, [64 * 64, 1, 1, 1]);
    product(&mut case);
    let found = case.tile(Rules::ALL, 0);
    assert_values(&case, &found);
    for tensor in [unread, unread_view] {
        let is_there = |node: &TensorId| {
            let origin = &found.draft.known[*node as usize].origin;
            origin.tensor == tensor && origin.role.is_given()
        };
        assert!(found.draft.graph.nodes().iter().any(is_there), "tensor {tensor} is not computed");
    }
}

#[test]
fn operations_that_are_not_known_are_not_tiled() {
    for name in ["INVENTED", "MAP_CUSTOM1", "CUMSUM", "OPT_STEP_SGD"] {
        let mut case = Case::new();
        let large = product(&mut case);
        let ne = case.ne(large);
        let user = case.node(name, ne, &[large]);
        // Not computed by the evaluation of values either.
        case.sketch.draft(user).tensor.op = Op::named(name);
        let found = case.tile(Rules::ALL, 0);
        assert!(found.tiled.iter().all(|tiled| tiled.tensor != large), "read by {name}, and tiled");
        assert_eq!(case.kinds[user as usize], TileKind::Other);
    }
}

#[test]
fn weights_that_must_not_be_sliced_are_used_as_a_whole() {
    let mut case = Case::new();
    let weight = case.leaf([64, 64, 1, 1]);
    let input = case.leaf([64, 1, 1, 1]);
    let large = case.mul_mat(weight, input);
    let wide = case.leaf([1, 64, 1, 1]);
    let row = case.reshape(large, [1, 64, 1, 1]);
    let large = case.mul_mat(wide, row);
    case.node("UNARY", [64, 64, 1, 1], &[large]);
    case.unsliced[wide as usize] = true;
    let found = case.tile(Rules::ALL, 0);
    let slices = found.draft.origins().filter(|origin| origin.role == Role::Slice);
    assert!(slices.into_iter().all(|origin| origin.tensor != wide));
}

#[test]
fn empty_graphs_and_graphs_without_memory_are_as_they_were() {
    let mut case = Case::new();
    assert_eq!(case.tile(Rules::ALL, 0).added_nodes(), 0);
    case.leaf([8, 1, 1, 1]);
    assert_eq!(case.tile(Rules::ALL, 0).added_nodes(), 0);
}

#[test]
fn tensors_that_are_listed_twice_are_refused() {
    let mut case = Case::new();
    let large = product(&mut case);
    let graph = case.sketch.graph();
    let mut twice = graph.clone();
    twice.list_nodes([large]);
    let (leafs, mut nodes) = case.requests();
    nodes.push(0);
    let subject =
        super::super::TileableGraph { graph: twice, detached: None, known: case.known(), kernels: case.kernels };
    let requests = crate::graph::Requests { leafs: &leafs, nodes: &nodes };
    let mut sizes = |_: TensorId, _| ELEMENT;
    let buffers = case.buffers(Rules::ALL);
    let found = super::super::tile(&subject, &buffers, requests, &mut sizes, TilingLimits::of(0), &mut |_| true);
    assert_eq!(found.map(|found| found.after), Err(NotChanged::ListedTwice(large)));
}

#[test]
fn sizes_that_overflow_are_refused() {
    let mut case = Case::new();
    let large = product(&mut case);
    case.sketch.draft(large).size = Bytes::MAX - 5;
    let found = case.search(Rules::ALL, TilingLimits::of(0), &mut |_| true).map(|found| found.after);
    assert!(matches!(found, Err(NotChanged::Plan(PlanError::TooLarge { .. }))), "{found:?}");
}

#[test]
fn other_nodes_between_those_of_a_region_run_before_or_after_the_tiles() {
    let mut case = Case::new();
    let [weight, input] = [0, 1].map(|_| case.leaf([8, 64, 1, 1]));
    let down = case.leaf([64, 16, 1, 1]);
    let other = case.leaf([16, 64, 1, 1]);
    let large = case.mul_mat(weight, input);
    let between = case.node("UNARY", [16, 64, 1, 1], &[other]);
    let small = case.mul_mat(down, large);
    case.node("ADD", [16, 64, 1, 1], &[small, between]);
    assert!(is_tiled(&case, large));
}

#[test]
fn results_that_are_read_through_a_view_in_no_list_are_not_tiled() {
    let mut case = Case::new();
    let large = product(&mut case);
    let view = case.reshape(large, [64 * 64, 1, 1, 1]);
    case.sketch.draft(view).list = List::None;
    case.node("UNARY", [64 * 64, 1, 1, 1], &[view]);
    assert!(!is_tiled(&case, large));
}

/// Kernels for several columns at once give other bits for columns that are taken one by one.
#[test]
fn tiles_of_products_begin_at_multiples_of_the_columns_that_kernels_take() {
    let mut case = Case::new();
    let large = product(&mut case);
    let [column, result] = [64, 16 * 64].map(|elements| elements * ELEMENT);
    let found = case.tile(Rules::ALL, result + 23 * column);
    assert_values(&case, &found);
    let graph = &found.draft.graph;
    let of_large = |&id: &TensorId| {
        let origin = found.draft.origin(id);
        origin.tensor == large && origin.role == Role::Tile
    };
    let columns: Vec<i64> = graph.nodes().iter().copied().filter(of_large).map(|id| graph.layout(id).ne[1]).collect();
    assert_eq!(columns, [16; 4], "24 are too many");
}

/// A node has few sources: an output of many tiles is joined in steps.
#[test]
fn output_depends_on_all_of_its_tiles() {
    let mut case = Case::new();
    let [key, query] = [0, 1].map(|_| case.leaf([4, 64, 32, 1]));
    let value = case.leaf([64, 4, 32, 1]);
    let scores = case.mul_mat(key, query);
    let result = case.mul_mat(value, scores);
    case.node("UNARY", [4, 64, 32, 1], &[result]);
    let found = case.tile(Rules::ALL, 64 << 10);
    let (draft, nodes) = (&found.draft, found.draft.graph.nodes());
    let of_result = |role: Role| {
        nodes.iter().copied().filter(move |&id| {
            let origin = draft.origin(id);
            origin.tensor == result && origin.role == role
        })
    };
    let tiles: Vec<TensorId> = of_result(Role::Tile).collect();
    assert!(tiles.len() > 10, "{} tiles need no steps", tiles.len());
    let mut reached: Vec<TensorId> = of_result(Role::Whole).collect();
    let mut next = 0;
    while let Some(&id) = reached.get(next) {
        let sources = draft.graph.sources(id).iter();
        let new: Vec<TensorId> = sources.copied().filter(|source| !reached.contains(source)).collect();
        reached.extend(new);
        next += 1;
    }
    assert!(tiles.iter().all(|tile| reached.contains(tile)));
}
