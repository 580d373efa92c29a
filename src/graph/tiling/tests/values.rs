//! Tile graphs compute the values of the given ones, each element once.

use crate::graph::{Flags, Rules, TensorId};
use crate::testing::Random;

use super::super::{Origin, Role, TileKind, TiledGraph};
use super::case::Case;
use super::evaluation::Values;
use super::random::random_case;

/// Asserts that each given tensor that is in the tiling graph has its values there.
pub fn assert_values(case: &Case, found: &TiledGraph) {
    let (given, draft) = (case.sketch.graph(), &found.draft);
    let whole = Values::of(&given, &case.kinds, u64::from);
    let seeds = |leaf: TensorId| u64::from(draft.known[leaf as usize].origin.tensor);
    let kinds: Vec<TileKind> = draft.known.iter().map(|known| known.kind).collect();
    let tiled = Values::of(&draft.graph, &kinds, seeds);
    let mut compared = 0;
    // A live tile takes the operation of the tensor that it is a tile of.
    let tile = |(id, origin): (usize, Origin)| (origin.role == Role::Tile).then_some((id, origin.tensor as usize));
    for (id, tensor) in draft.origins().enumerate().filter_map(tile) {
        let [own, given] = [draft.known[id].kind, case.kinds[tensor]].map(TileKind::is_view);
        assert_eq!(own, given, "a tile of {tensor} with another operation");
    }
    for (id, origin) in (0..).zip(draft.origins()) {
        if origin.role.is_given() {
            assert_eq!(tiled.all(id), whole.all(origin.tensor), "tensor {}", origin.tensor);
            compared += 1;
        }
    }
    assert!(compared > 0);
    assert_kept(case, found);
}

/// Leafs, outputs, kept tensors and the last node are as they were, and the last node is last.
fn assert_kept(case: &Case, found: &TiledGraph) {
    let draft = &found.draft;
    let given = case.sketch.graph();
    let still = |tensor: TensorId| draft.origins().position(|it| it.tensor == tensor && it.role.is_given());
    for (id, tensor) in (0..).zip(given.tensors()) {
        let must_be = tensor.flags.has(Flags::OUTPUT) || case.kept[id as usize] || tensor.external;
        assert!(!must_be || still(id).is_some(), "tensor {id} is gone");
        if let (true, Some(at)) = (case.kept[id as usize], still(id)) {
            assert_eq!(draft.known[at].origin.role, Role::Given, "tensor {id} is tiled");
        }
    }
    let last = |graph: &crate::graph::Graph| graph.nodes().last().copied().unwrap_or_default();
    let origin = draft.origin(last(&draft.graph));
    assert_eq!((origin.tensor, origin.role), (last(&given), Role::Given));
}

#[test]
fn random_graphs_compute_the_given_values() {
    let mut random = Random::new(71);
    let (mut tilings, mut again, mut met) = (0, 0, 0);
    for round in 0..120 {
        let case = random_case(&mut random);
        let rules = [Rules::ALL, Rules::ALL, Rules::GGML, Rules::NONE][random.below(4) as usize];
        let given = case.given_bytes(rules);
        for budget in [0, given * (30 + u64::from(random.below(65))) / 100] {
            let found = case.tile(rules, budget);
            assert_values(&case, &found);
            assert!(found.after <= found.before, "graph {round} grows: {} bytes, then {}", found.before, found.after);
            tilings += found.tiled.len();
            again += found.draft.tiles.iter().filter(|tile| tile.within.is_some()).count();
            met += usize::from(found.after <= budget);
        }
    }
    assert!(
        tilings > 150 && again > 50 && met > 30,
        "poor graphs: {tilings} tilings, {again} tiled again, {met} budgets met"
    );
}

#[test]
fn same_graph_is_tiled_the_same_way() {
    let mut random = Random::new(72);
    for _ in 0..20 {
        let case = random_case(&mut random);
        let budget = case.given_bytes(Rules::ALL) / 2;
        let (one, other) = (case.tile(Rules::ALL, budget), case.tile(Rules::ALL, budget));
        assert_eq!((one.after, &one.tiled), (other.after, &other.tiled));
        assert!(one.draft.origins().eq(other.draft.origins()));
    }
}
