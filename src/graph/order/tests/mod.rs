//! Hazards, the model, and the orders that are found.

mod eager;
mod hazards;
mod model;
mod orders;
mod smallest;

use crate::graph::Effect;
use crate::graph::order::{Hazards, ReorderEffort, Reordering, reorder};
use crate::graph::tests::random::{random_sketch_of, retain_some};
use crate::graph::tests::sketch::{List, Sketch};
use crate::graph::{BufferIndex, Graph, GraphPlan, Op, Requests, Rules, TensorId, Wishes, Workspace, plan, simulate};
use crate::placement::{Bytes, Problem, Step, lower_bound, validate};
use crate::testing::Random;

/// The rules that the model covers exactly.
const RULES: Rules = Rules { concat: false, unread_inputs: false, inactive: false, ..Rules::ALL };

fn own_memory(sketch: &Sketch) -> Vec<TensorId> {
    (0..).take(sketch.drafts.len()).collect()
}

fn hazards(sketch: &Sketch) -> Hazards {
    Hazards::new(&sketch.graph(), &own_memory(sketch))
}

fn reordered(sketch: &Sketch, effort: ReorderEffort) -> Reordering {
    let (leafs, nodes) = (sketch.requests(List::Leafs), sketch.requests(List::Nodes));
    let requests = Requests { leafs: &leafs, nodes: &nodes };
    let mut sizes = |id: TensorId, _: BufferIndex| sketch.drafts[id as usize].size;
    let hazards = hazards(sketch);
    let found = reorder(&sketch.graph(), &sketch.buffers_with(RULES), requests, &mut sizes, &hazards, effort);
    found.expect("sizes are small")
}

/// The graph in another order, and the buffers of its nodes.
fn in_order(sketch: &Sketch, order: &[Step]) -> (Graph, Vec<BufferIndex>) {
    let nodes = sketch.requests(List::Nodes);
    (sketch.graph().in_order(order), order.iter().map(|&step| nodes[step as usize]).collect())
}

/// A plan for another order that both validators accept.
fn plan_in_order(sketch: &Sketch, order: &[Step]) -> GraphPlan {
    let (graph, nodes) = in_order(sketch, order);
    let requests = Requests { leafs: &sketch.requests(List::Leafs), nodes: &nodes };
    let mut sizes = |id: TensorId, _: BufferIndex| sketch.drafts[id as usize].size;
    let plan =
        plan(&graph, &sketch.buffers_with(RULES), requests, &mut sizes, Wishes::default(), &mut Workspace::default())
            .expect("sizes are small");
    for (problem, buffer) in plan.problems.iter().zip(&plan.buffers) {
        assert_eq!(validate(problem, &buffer.placement), Ok(()));
    }
    let nbytes: Vec<Bytes> = sketch.drafts.iter().map(|draft| draft.nbytes).collect();
    assert_eq!(simulate(&graph, &plan, &nbytes), Ok(()));
    plan
}

/// Returns, by buffer, the blocks of the live ranges with the most reuse.
fn problems(sketch: &Sketch, order: &[Step], rules: Rules) -> Vec<Problem> {
    let (graph, nodes) = in_order(sketch, order);
    let requests = Requests { leafs: &sketch.requests(List::Leafs), nodes: &nodes };
    let mut sizes = |id: TensorId, _: BufferIndex| sketch.drafts[id as usize].size;
    let buffers = sketch.buffers_with(rules);
    crate::graph::live_ranges(&graph, &buffers, requests, &mut sizes, &[], &mut Workspace::default())
        .take_problems(&buffers)
}

/// Returns the lower bounds, by buffer.
fn bounds(sketch: &Sketch, order: &[Step], rules: Rules) -> Vec<Bytes> {
    problems(sketch, order, rules).iter().map(lower_bound).collect()
}

/// A graph with some nodes that write into others, and a few that may do anything.
fn random_graph(random: &mut Random, most: u32) -> Sketch {
    let mut sketch = random_sketch_of(random, most);
    let markers = random.chance(30);
    for draft in &mut sketch.drafts {
        let is_node = draft.list == List::Nodes;
        if is_node && !markers && draft.tensor.is_marker() {
            draft.tensor.set_op(Op::MulMat);
        }
        if is_node && draft.tensor.op.is_view() && random.chance(40) {
            draft.tensor.op = Op::Cpy;
        }
        if is_node && draft.tensor.op.effect() == Effect::Result {
            draft.tensor.op = match random.below(100) {
                0 => Op::Custom,
                1..4 => Op::Unknown,
                4..6 => Op::OptStepSgd,
                _ => draft.tensor.op,
            };
        }
    }
    sketch
}

/// Such a graph, with retained tensors.
fn random_retaining_graph(random: &mut Random, most: u32) -> Sketch {
    let mut sketch = random_graph(random, most);
    retain_some(random, &mut sketch);
    sketch
}

/// Returns, by step, the steps that must run before it: checks every pair of nodes, without [`Hazards`].
fn pairs(sketch: &Sketch) -> Vec<Vec<Step>> {
    let graph = sketch.graph();
    let nodes = graph.nodes();
    let ordered = |earlier: usize, later: usize| {
        let (a, b) = (nodes[earlier], nodes[later]);
        let named = |x: TensorId, y: TensorId| graph.sources(x).contains(&y) || graph.root(x) == y || x == y;
        named(a, b)
            || named(b, a)
            || [(a, b), (b, a)].into_iter().any(|(a, b)| graph.retention().until(a).any(|retained| retained == b))
            || later + 1 == nodes.len()
            || [earlier, later].into_iter().any(|step| is_barrier(sketch, &graph, step))
            || share_memory(sketch, &graph, a, b)
    };
    (0..nodes.len())
        .map(|later| {
            (0u32..).zip(0..later).filter(|&(_, earlier)| ordered(earlier, later)).map(|(step, _)| step).collect()
        })
        .collect()
}

fn is_barrier(sketch: &Sketch, graph: &Graph, step: usize) -> bool {
    let node = graph.nodes()[step];
    let tensor = graph.tensor(node);
    let is_named = graph.nodes()[..step].iter().any(|&earlier| graph.sources(earlier).contains(&node));
    let is_there = (tensor.external || is_named) && graph.sources(node).is_empty();
    sketch.drafts[node as usize].tensor.op.effect() == Effect::Anything || (tensor.is_marker() && !is_there)
}

fn share_memory(sketch: &Sketch, graph: &Graph, a: TensorId, b: TensorId) -> bool {
    let touches = |node: TensorId| -> Vec<(TensorId, bool)> {
        let effect = sketch.drafts[node as usize].tensor.op.effect();
        let looks = effect == Effect::Nothing || (effect == Effect::View && graph.tensor(node).view.is_some());
        let sources = graph.sources(node).iter();
        let sources = sources.enumerate().map(|(position, &id)| (graph.root(id), effect.writes_source(position)));
        sources.chain([(graph.root(node), !looks)]).collect()
    };
    let (a, b) = (touches(a), touches(b));
    a.iter().any(|(root, writes)| b.iter().any(|(other, also)| root == other && (*writes || *also)))
}

/// Returns a random order that keeps `before`.
fn random_order(random: &mut Random, before: &[Vec<Step>]) -> Vec<Step> {
    let mut order: Vec<Step> = Vec::new();
    let mut left: Vec<Step> = (0..).take(before.len()).collect();
    while !left.is_empty() {
        let free = |&&step: &&Step| before[step as usize].iter().all(|earlier| order.contains(earlier));
        let ready: Vec<Step> = left.iter().filter(free).copied().collect();
        let next = ready[random.below(u32::try_from(ready.len()).expect("few nodes")) as usize];
        order.push(next);
        left.retain(|&step| step != next);
    }
    order
}
