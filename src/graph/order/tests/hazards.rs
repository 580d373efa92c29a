//! Which nodes must stay before which.

use crate::graph::order::Hazards;
use crate::graph::tests::sketch::Sketch;
use crate::graph::{Op, TensorId};
use crate::testing::Random;

use super::{hazards, own_memory, pairs, random_graph, random_order};

/// Returns whether the first two nodes may be swapped in a graph of two nodes that only read a leaf, the nodes of `add`
/// between them, and a last node.
fn may_swap(add: impl FnOnce(&mut Sketch, TensorId)) -> bool {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    add(&mut sketch, x);
    sketch.node(64, &[x]);
    let count = u32::try_from(sketch.graph().nodes().len()).expect("few nodes");
    let order: Vec<u32> = [1, 0].into_iter().chain(2..count).collect();
    hazards(&sketch).allow(&order)
}

fn external(sketch: &mut Sketch) -> TensorId {
    let id = sketch.leaf(64);
    sketch.draft(id).tensor.external = true;
    id
}

#[test]
fn nodes_that_only_read_the_same_may_be_swapped() {
    assert!(may_swap(|sketch, x| {
        sketch.node(64, &[x]);
        sketch.node(64, &[x]);
    }));
}

#[test]
fn reader_stays_after_its_source() {
    assert!(!may_swap(|sketch, x| {
        let a = sketch.node(64, &[x]);
        sketch.node(64, &[a]);
    }));
}

#[test]
fn reader_of_an_unlisted_view_stays_after_its_root() {
    assert!(!may_swap(|sketch, x| {
        let root = sketch.node(64, &[x]);
        let view = sketch.unlisted_view(root, 0, 32);
        sketch.node(32, &[view]);
    }));
}

#[test]
fn read_stays_before_a_later_write() {
    assert!(!may_swap(|sketch, x| {
        let cache = external(sketch);
        sketch.node(64, &[cache]);
        sketch.copy(x, cache, 64);
    }));
}

#[test]
fn read_through_a_view_stays_after_an_earlier_write_through_another() {
    assert!(!may_swap(|sketch, x| {
        let cache = external(sketch);
        let view = sketch.unlisted_view(cache, 0, 32);
        sketch.copy(x, cache, 64);
        sketch.node(32, &[view]);
    }));
}

#[test]
fn writes_keep_their_order() {
    assert!(!may_swap(|sketch, x| {
        let cache = external(sketch);
        sketch.copy(x, cache, 64);
        sketch.copy(x, cache, 32);
    }));
}

#[test]
fn writes_to_different_memory_may_be_swapped() {
    assert!(may_swap(|sketch, x| {
        for cache in [external(sketch), external(sketch)] {
            sketch.copy(x, cache, 64);
        }
    }));
}

#[test]
fn step_of_an_optimizer_writes_its_sources() {
    let with = |op| {
        may_swap(|sketch, x| {
            let (weights, moments) = (external(sketch), external(sketch));
            let step = sketch.copy(x, weights, 64);
            sketch.draft(step).sources.push(moments);
            sketch.draft(step).tensor.op = op;
            sketch.node(64, &[moments]);
        })
    };
    assert!(with(Op::Cpy));
    assert!(!with(Op::Unknown));
}

#[test]
fn node_that_may_do_anything_is_a_barrier() {
    let with = |op| {
        may_swap(|sketch, x| {
            sketch.node(64, &[x]);
            let custom = sketch.node(64, &[x]);
            sketch.draft(custom).tensor.op = op;
        })
    };
    assert!(with(Op::Cpy));
    assert!(!with(Op::Custom));
}

#[test]
fn dependency_marker_is_a_barrier() {
    assert!(!may_swap(|sketch, x| {
        sketch.marker(&[x]);
        sketch.node(64, &[x]);
    }));
    assert!(!may_swap(|sketch, x| {
        sketch.node(64, &[x]);
        sketch.marker(&[]);
    }));
}

#[test]
fn parameters_among_the_nodes_are_no_barriers() {
    assert!(may_swap(|sketch, x| {
        let parameter = sketch.marker(&[]);
        sketch.draft(parameter).tensor.external = true;
        sketch.node(64, &[x]);
    }));
}

#[test]
fn no_op_node_that_others_write_follows_them_and_is_no_barrier() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let part = sketch.node(32, &[x]);
    let other = sketch.node(64, &[x]);
    let place = sketch.marker(&[]);
    sketch.draft(part).tensor.view = Some(crate::graph::View { root: place, offset: 0 });
    sketch.draft(part).sources.push(place);
    sketch.node(64, &[place, other]);
    let hazards = hazards(&sketch);
    assert!(hazards.allow(&[1, 0, 2, 3]) && hazards.allow(&[0, 2, 1, 3]));
    assert!(!hazards.allow(&[2, 0, 1, 3]));
}

#[test]
fn last_node_stays_the_last() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    for _ in 0..3 {
        sketch.node(64, &[x]);
    }
    let hazards = hazards(&sketch);
    assert!(hazards.allow(&[1, 0, 2]));
    assert!(!hazards.allow(&[0, 2, 1]));
}

#[test]
fn external_tensors_may_alias() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let (cache, same) = (external(&mut sketch), external(&mut sketch));
    sketch.copy(x, cache, 64);
    sketch.node(64, &[same]);
    sketch.node(64, &[x]);
    assert!(hazards(&sketch).allow(&[1, 0, 2]));
    let mut memory = own_memory(&sketch);
    memory[same as usize] = cache;
    assert!(!Hazards::new(&sketch.graph(), &memory).allow(&[1, 0, 2]));
}

#[test]
fn only_orders_of_all_nodes_are_allowed() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    for _ in 0..3 {
        sketch.node(64, &[x]);
    }
    let hazards = hazards(&sketch);
    for order in [&[0, 1][..], &[0, 0, 2], &[0, 1, 2, 2], &[0, 1, 3]] {
        assert!(!hazards.allow(order), "{order:?}");
    }
    assert!(super::hazards(&Sketch::new()).allow(&[]));
}

#[test]
fn reader_before_its_producer_stays_there() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let early = sketch.node(64, &[x]);
    let late = sketch.node(64, &[x]);
    sketch.node(64, &[x]);
    sketch.draft(early).sources.push(late);
    assert!(!hazards(&sketch).allow(&[1, 0, 2]));
}

#[test]
fn node_that_is_listed_twice_keeps_its_order_with_readers() {
    let mut sketch = Sketch::new();
    let x = sketch.leaf(64);
    let twice = sketch.node(64, &[x]);
    sketch.node(64, &[twice]);
    let mut graph = sketch.graph();
    graph.list_nodes([twice, x]);
    let hazards = Hazards::new(&graph, &own_memory(&sketch));
    assert!(hazards.allow(&[0, 1, 2, 3]));
    for order in [[1, 0, 2, 3], [0, 2, 1, 3], [2, 1, 0, 3]] {
        assert!(!hazards.allow(&order), "{order:?}");
    }
}

/// In both directions: no pair is missing, and none is superfluous.
#[test]
fn hazards_match_a_check_of_all_pairs() {
    let mut random = Random::new(20);
    let mut other = 0;
    for _ in 0..400 {
        let sketch = random_graph(&mut random, 40);
        let (hazards, pairs) = (hazards(&sketch), pairs(&sketch));
        let given: Vec<u32> = (0..).take(pairs.len()).collect();
        let found: Vec<Vec<u32>> = given.iter().map(|&step| hazards.before(step).to_vec()).collect();
        for _ in 0..10 {
            let order = random_order(&mut random, &pairs);
            assert!(hazards.allow(&order), "{order:?} is forbidden without need");
            other += u32::from(order != given);
            let order = random_order(&mut random, &found);
            for (at, &step) in order.iter().enumerate() {
                let missing = pairs[step as usize].iter().find(|earlier| !order[..at].contains(earlier));
                assert_eq!(missing, None, "{step} overtakes in {order:?}");
            }
        }
    }
    assert!(other > 1000, "poor graphs: {other} other orders");
}

#[test]
fn retained_tensor_stays_before_the_node_that_ends_its_retention() {
    let with = |is_retained| {
        may_swap(|sketch, x| {
            let retained = sketch.node(64, &[x]);
            let end = sketch.node(64, &[x]);
            sketch.retain(retained, Some(end).filter(|_| is_retained));
        })
    };
    assert!(!with(true));
    assert!(with(false), "to the end");
}
