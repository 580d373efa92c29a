//! Random graphs with everything that graphs may have in them.

use crate::graph::{
    BufferIndex, BufferSpec, Flags, GraphPlan, InPlace, Op, Requests, Rules, Slots, TensorId, View, Wishes, Workspace,
    plan,
};
use crate::placement::{BestFit, Bytes, Strategy};

use super::sketch::{BUFFER, List, Sketch};
use crate::testing::Random;

/// A graph of up to 60 tensors and a few leafs.
pub fn random_sketch(random: &mut Random) -> Sketch {
    random_sketch_of(random, 60)
}

/// A graph of fewer than `most` tensors and a few leafs.
pub fn random_sketch_of(random: &mut Random, most: u32) -> Sketch {
    let mut sketch = Sketch::with_buffers(&random_buffers(random));
    for _ in 0..1 + random.below(3) {
        add_leaf(random, &mut sketch);
    }
    for _ in 0..random.below(most) {
        match random.below(20) {
            0..2 => add_leaf(random, &mut sketch),
            2..6 => add_view(random, &mut sketch),
            6 => add_marker(random, &mut sketch),
            7 => add_unlisted(random, &mut sketch),
            8 | 9 => add_concat(random, &mut sketch),
            _ => add_node(random, &mut sketch),
        }
    }
    flag_most(random, &mut sketch);
    sketch
}

/// Retains some tensors of a graph, to the end or until a node.
pub fn retain_some(random: &mut Random, sketch: &mut Sketch) {
    let count = u32::try_from(sketch.drafts.len()).expect("few tensors");
    for tensor in 0..count {
        if sketch.drafts[tensor as usize].list != List::None && random.chance(20) {
            let until = random.chance(60).then(|| random.below(count));
            sketch.retain(tensor, until);
        }
    }
}

/// Flags the nodes to compute of some graphs.
fn flag_most(random: &mut Random, sketch: &mut Sketch) {
    if random.chance(60) {
        return;
    }
    for draft in sketch.drafts.iter_mut().filter(|draft| draft.list == List::Nodes) {
        if draft.tensor.op != Op::None && random.chance(80) {
            draft.tensor.flags.0 |= Flags::COMPUTE.0;
        }
    }
}

/// A graph of leafs and then nodes, whatever refers to a tensor comes after it, or is it.
pub fn random_sketch_in_order(random: &mut Random) -> Sketch {
    let mut sketch = Sketch::with_buffers(&random_buffers(random));
    for _ in 0..1 + random.below(5) {
        add_leaf(random, &mut sketch);
    }
    for _ in 0..random.below(60) {
        match random.below(20) {
            0..4 => add_view(random, &mut sketch),
            4..6 => add_concat(random, &mut sketch),
            _ => add_node(random, &mut sketch),
        }
    }
    for unlisted in sketch.drafts.iter_mut().filter(|draft| draft.list == List::None) {
        unlisted.list = List::Nodes;
    }
    flag_most(random, &mut sketch);
    sketch
}

fn random_buffers(random: &mut Random) -> Vec<BufferSpec> {
    let limited = BufferSpec { alignment: 32, max_chunk: Some(256), ..BUFFER };
    if random.chance(70) { vec![BUFFER] } else { vec![BUFFER, limited] }
}

/// Few sizes, so that many tensors have the same layout.
fn random_size(random: &mut Random) -> Bytes {
    [16, 64, 64, 64, 200][random.below(5) as usize]
}

fn random_operation(random: &mut Random) -> InPlace {
    let slots = [Slots::ALL, Slots::ALL, Slots::FIRST, Slots::SECOND][random.below(4) as usize];
    match random.below(10) {
        0..4 => InPlace::Listed(slots),
        4..6 => InPlace::RowByRow(slots),
        6 => InPlace::Copy,
        _ => InPlace::Never,
    }
}

/// A tensor added before, usually a recent one.
fn earlier(random: &mut Random, sketch: &Sketch) -> TensorId {
    let count = TensorId::try_from(sketch.drafts.len()).expect("few tensors");
    let window = if random.chance(80) { count.min(6) } else { count };
    count - 1 - random.below(window)
}

fn add_leaf(random: &mut Random, sketch: &mut Sketch) {
    let size = random_size(random);
    let id = sketch.leaf(size);
    if random.chance(50) {
        sketch.flag(id, Flags::INPUT);
    }
    sketch.draft(id).tensor.external = random.chance(25);
    finish(random, sketch, id);
}

fn add_node(random: &mut Random, sketch: &mut Sketch) {
    let sources: Vec<TensorId> = (0..random.below(4)).map(|_| earlier(random, sketch)).collect();
    let size = random_size(random);
    let id = sketch.node(size, &sources);
    sketch.draft(id).tensor.in_place = random_operation(random);
    sketch.draft(id).tensor.external = random.chance(3);
    if random.chance(5) {
        sketch.draft(id).sources.push(id);
    }
    if random.chance(3) {
        sketch.flag(id, Flags::INPUT);
    }
    finish(random, sketch, id);
}

/// A view of something listed, in a list or not, that may read more than its root.
fn add_view(random: &mut Random, sketch: &mut Sketch) {
    let viewed = earlier(random, sketch);
    let root = sketch.graph().root(viewed);
    if sketch.draft(root).list == List::None {
        return;
    }
    let size = if random.chance(60) { sketch.draft(root).nbytes } else { random_size(random) };
    let offset = if random.chance(70) { 0 } else { 16 * u64::from(random.below(4)) };
    let mut sources = vec![viewed];
    if random.chance(20) {
        sources.insert(0, earlier(random, sketch));
    }
    let id = sketch.node(size, &sources);
    sketch.draft(id).tensor.view = Some(View { root, offset });
    if random.chance(30) {
        sketch.draft(id).list = List::None;
    }
    finish(random, sketch, id);
}

/// Adds a marker that uses something earlier, or the next tensor.
fn add_marker(random: &mut Random, sketch: &mut Sketch) {
    let named = earlier(random, sketch);
    let marker = sketch.marker(&[named]);
    if random.chance(50) {
        add_node(random, sketch);
        sketch.draft(marker).sources.push(marker + 1);
    }
}

fn add_unlisted(random: &mut Random, sketch: &mut Sketch) {
    let size = random_size(random);
    let id = sketch.add(List::None, size, &[]);
    finish(random, sketch, id);
}

/// Joins two tensors that were added before, after each other.
fn add_concat(random: &mut Random, sketch: &mut Sketch) {
    let operands = [earlier(random, sketch), earlier(random, sketch)];
    let sizes = operands.map(|id| sketch.draft(id).nbytes);
    let id = sketch.concat(operands, sizes.iter().sum());
    finish(random, sketch, id);
}

/// Properties that any tensor may have.
fn finish(random: &mut Random, sketch: &mut Sketch, id: TensorId) {
    let buffers = u32::try_from(sketch.buffers.len()).expect("few buffers");
    sketch.draft(id).buffer = random.below(buffers);
    if random.chance(7) {
        sketch.flag(id, Flags::OUTPUT);
    }
    if random.chance(10) {
        sketch.draft(id).size += u64::from(random.below(100));
    }
}

/// Bytes and chunks, by buffer.
fn measures(plan: &GraphPlan) -> impl Iterator<Item = (Bytes, usize)> {
    plan.buffers.iter().map(|buffer| (buffer.placement.size(), buffer.placement.chunks.len()))
}

#[test]
fn plans_are_correct_and_more_reuse_never_costs_memory() {
    let mut random = Random::new(7);
    let (mut in_place, mut through_views, mut inside) = (0, 0, 0);
    for _ in 0..1700 {
        let sketch = random_sketch(&mut random);
        let (ggml, all) = (sketch.plan(Rules::GGML), sketch.plan(Rules::ALL));
        for (with_all, with_ggml) in measures(&all).zip(measures(&ggml)) {
            assert!(with_all.0 <= with_ggml.0 && with_all.1 <= with_ggml.1, "{with_all:?} {with_ggml:?}");
        }
        let reused = all.allocations.iter().flatten().filter_map(|allocation| allocation.in_place_of);
        inside += all.allocations.iter().flatten().filter(|allocation| allocation.within > 0).count();
        for source in reused {
            in_place += 1;
            through_views += u32::from(sketch.drafts[source as usize].tensor.view.is_some());
        }
    }
    assert!(in_place > 1000 && through_views > 100, "poor graphs: {in_place} in place, {through_views} through views");
    assert!(inside > 20, "poor graphs: {inside} computed inside a result");
}

#[test]
fn plans_are_never_larger_than_best_fit_of_ggml_live_ranges() {
    let mut random = Random::new(8);
    for _ in 0..500 {
        let sketch = random_sketch(&mut random);
        let best_fit = sketch.live_ranges(Rules::GGML).take_problems(&sketch.buffers_with(Rules::GGML));
        for (measure, problem) in measures(&sketch.plan(Rules::ALL)).zip(&best_fit) {
            let placement = BestFit.place(problem);
            assert!(measure.0 <= placement.size() && measure.1 <= placement.chunks.len());
        }
    }
}

#[test]
fn same_graph_gives_same_plan() {
    let mut random = Random::new(9);
    for _ in 0..100 {
        let sketch = random_sketch(&mut random);
        let (first, second) = (sketch.plan(Rules::ALL), sketch.plan(Rules::ALL));
        assert_eq!(first.allocations, second.allocations);
        for (first, second) in first.buffers.iter().zip(&second.buffers) {
            assert_eq!(first.placement, second.placement);
        }
    }
}

#[test]
fn workspace_of_earlier_plans_changes_no_plan() {
    let mut random = Random::new(12);
    let mut workspace = Workspace::default();
    for _ in 0..500 {
        let mut sketch = random_sketch(&mut random);
        retain_some(&mut random, &mut sketch);
        let (graph, buffers) = (sketch.graph(), sketch.buffers_with(Rules::ALL));
        let (leafs, nodes) = (sketch.requests(List::Leafs), sketch.requests(List::Nodes));
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let mut sizes = |id: TensorId, _: BufferIndex| sketch.drafts[id as usize].size;
        let known =
            plan(&graph, &buffers, requests, &mut sizes, Wishes::default(), &mut workspace).expect("sizes are small");
        let fresh = sketch.plan(Rules::ALL);
        assert_eq!((&known.allocations, &known.inactive), (&fresh.allocations, &fresh.inactive));
        assert_eq!(known.inactive_owners, fresh.inactive_owners);
        for (known, fresh) in known.buffers.iter().zip(&fresh.buffers) {
            assert_eq!((&known.placement, known.lower_bound), (&fresh.placement, fresh.lower_bound));
        }
        if random.chance(50) { known } else { fresh }.leave_to(&mut workspace);
    }
}

/// One more unlisted and unused tensor makes a graph one for the general first pass.
#[test]
fn both_first_passes_find_the_same_live_ranges() {
    let (mut random, mut inactive) = (Random::new(11), 0);
    for _ in 0..1000 {
        let mut sketch = random_sketch_in_order(&mut random);
        let known = sketch.live_ranges(Rules::ALL);
        let extra = sketch.add(List::None, 16, &[]);
        sketch.draft(extra).tensor.external = true;
        let found = sketch.live_ranges(Rules::ALL);
        inactive += known.inactive.len();
        assert_eq!(known.allocations, found.allocations[..known.allocations.len()]);
        assert_eq!((known.inactive, known.inactive_owners), (found.inactive, found.inactive_owners));
        assert_eq!((known.concats, known.beyond_ggml), (found.concats, found.beyond_ggml));
        for (known, found) in known.blocks.iter().zip(&found.blocks) {
            assert_eq!((known.blocks(), known.shrinks()), (found.blocks(), found.shrinks()));
        }
    }
    assert!(inactive > 100, "poor graphs: {inactive} inactive nodes");
}

/// Not every damaged plan is wrong: a block may move onto one with a disjoint live range.
#[test]
fn most_damaged_plans_are_found() {
    let mut random = Random::new(10);
    let (mut spoilt, mut found) = (0, 0);
    for _ in 0..300 {
        let sketch = random_sketch(&mut random);
        let mut plan = sketch.plan(Rules::ALL);
        let locations = &mut plan.buffers[0].placement.locations;
        if let Ok(count @ 2..) = u32::try_from(locations.len()) {
            let (from, to) = (random.below(count) as usize, random.below(count) as usize);
            spoilt += u32::from(locations[from] != locations[to]);
            locations[from] = locations[to];
            found += u32::from(sketch.simulate(&plan).is_err());
        }
    }
    assert!(found * 2 > spoilt && spoilt > 100, "only {found} of {spoilt} are found");
}
