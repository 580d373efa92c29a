//! Tile graphs compute the values of the given ones, each element once.

use crate::graph::{Device, Flags, Rules, TensorId};
use crate::placement::Bytes;
use crate::testing::Random;

use super::super::slices::is_packed;
use super::super::{Origin, Role, TileKernels, TileKind, TiledGraph};
use super::case::Case;
use super::evaluation::Values;
use super::random::{random_attention, random_case};

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

/// Asserts that results and slices of tiles are without gaps where the whole is, and begin at multiples of `alignment`.
fn assert_aligned(case: &Case, found: &TiledGraph, alignment: Bytes) {
    let draft = &found.draft;
    for (id, origin) in (0..).zip(draft.origins()).filter(|(_, origin)| matches!(origin.role, Role::Tile | Role::Slice))
    {
        let (given, own) = (case.layout(origin.tensor), draft.graph.layout(id));
        let is_destination = origin.role == Role::Slice && !case.sketch.drafts[origin.tensor as usize].tensor.external;
        // IM2COL reads channels that are apart, and copies write rows that are.
        let has_gaps = is_destination || case.convolves;
        assert!(is_packed(own) == is_packed(&given) || has_gaps, "tensor {id} of {}", origin.tensor);
        let [own, given] = [draft.graph.tensor(id).view, case.sketch.drafts[origin.tensor as usize].tensor.view]
            .map(|view| view.map_or(0, |view| view.offset));
        assert!(!given.is_multiple_of(alignment) || own.is_multiple_of(alignment), "tensor {id} begins at {own}");
    }
}

#[test]
fn tiles_of_devices_compute_the_given_values_without_gaps() {
    let mut random = Random::new(73);
    let (mut tilings, mut copies) = ([0, 0], 0);
    for round in 0..120 {
        let has_same_bits = round % 2 == 0;
        let device = [Device::Vulkan, Device::Cuda, Device::Gpu][random.below(3) as usize];
        let alignment = [4, 16, 32][random.below(3) as usize];
        let mut case = if has_same_bits { random_attention(&mut random) } else { random_case(&mut random) };
        case.kernels = TileKernels::Device { device, alignment, has_same_bits };
        let given = case.given_bytes(Rules::ALL);
        for budget in [0, given * (30 + u64::from(random.below(65))) / 100] {
            let found = case.tile(Rules::ALL, budget);
            assert_values(&case, &found);
            assert_aligned(&case, &found, alignment);
            tilings[usize::from(has_same_bits)] += found.tiled.len();
            copies += found.draft.origins().filter(|origin| origin.role == Role::Copied).count();
        }
    }
    assert!(tilings.iter().all(|count| *count >= 30) && copies > 30, "{tilings:?} tilings, {copies} copies");
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
