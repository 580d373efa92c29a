//! Nodes that a program computes in place of their source.

use crate::graph::{Flags, Graph, TensorId, View};

use super::super::detached;
use super::case::Case;

/// A node in the memory of `root`, of which `source` is a view or which it is.
fn in_place(case: &mut Case, source: TensorId, root: TensorId) -> TensorId {
    let ne = case.ne(source);
    let id = case.node("SCALE", ne, &[source]);
    case.sketch.draft(id).tensor.view = Some(View { root, offset: 0 });
    id
}

fn computed(case: &mut Case) -> TensorId {
    let leaf = case.leaf([64, 64, 1, 1]);
    case.node("UNARY", [64, 64, 1, 1], &[leaf])
}

fn detached_graph(case: &Case) -> Graph {
    let given = case.sketch.graph();
    detached(&given, &case.kinds).unwrap_or(given)
}

#[test]
fn last_of_a_chain_owns_what_is_read_after_it() {
    let mut case = Case::new();
    let root = computed(&mut case);
    let first = in_place(&mut case, root, root);
    let second = in_place(&mut case, first, root);
    let view = case.reshape(second, [64 * 64, 1, 1, 1]);
    case.sketch.draft(view).tensor.view = Some(View { root, offset: 0 });
    case.node("UNARY", [64 * 64, 1, 1, 1], &[view]);
    let graph = detached_graph(&case);
    let roots = [first, second, view].map(|id| graph.tensor(id).view.map(|view| view.root));
    assert_eq!(roots, [None, None, Some(second)]);
}

/// A change of a case with a tensor and the node computed in place of it.
type Change = fn(&mut Case, [TensorId; 2]);

#[test]
fn what_is_read_or_kept_besides_stays_in_place() {
    let changes: [(&str, Change); 4] = [
        ("nothing", |_, _| {}),
        ("an output", |case, [root, _]| case.flag(root, Flags::OUTPUT)),
        ("retained", |case, [root, _]| case.sketch.retain(root, None)),
        ("read afterwards", |case, [root, _]| {
            case.node("UNARY", [64, 64, 1, 1], &[root]);
        }),
    ];
    for (what, change) in changes {
        let mut case = Case::new();
        let root = computed(&mut case);
        let node = in_place(&mut case, root, root);
        case.node("UNARY", [64, 64, 1, 1], &[node]);
        change(&mut case, [root, node]);
        let is_detached = detached_graph(&case).tensor(node).view.is_none();
        assert_eq!(is_detached, what == "nothing", "{what}");
    }
}

#[test]
fn nodes_in_memory_that_is_not_planned_stay_in_place() {
    let mut case = Case::new();
    let weight = case.leaf([64, 64, 1, 1]);
    let node = in_place(&mut case, weight, weight);
    case.node("UNARY", [64, 64, 1, 1], &[node]);
    assert!(detached_graph(&case).tensor(node).view.is_some());
}
