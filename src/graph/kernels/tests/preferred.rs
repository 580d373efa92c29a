//! Placements of the same size that cost less.

use std::borrow::Cow;

use super::{KernelCosts, Scene};
use crate::graph::kernels::costs_at;
use crate::graph::tests::sketch::List;
use crate::graph::{BufferIndex, Device, Devices, GraphPlan, Requests, Rules, TensorId, Wishes, Workspace, plan};
use crate::placement::validate;
use crate::testing::Random;

const OPS: [&str; 6] = ["MUL_MAT", "ADD", "MUL", "RMS_NORM", "SILU", "SOFT_MAX"];

/// A graph of branches that read earlier results.
fn random_scene(random: &mut Random) -> Scene {
    let mut scene = Scene::new();
    let mut results: Vec<TensorId> = (0..1 + random.below(3)).map(|_| scene.leaf()).collect();
    for _ in 0..10 + random.below(60) {
        let recent = &results[results.len().saturating_sub(8)..];
        let count = u32::try_from(recent.len()).expect("few results");
        let mut source = || recent[random.below(count) as usize];
        let sources = [source(), source()];
        let rows = 1 + u64::from(random.below(4));
        let op = OPS[random.below(6) as usize];
        results.push(scene.add(List::Nodes, op, rows, &sources));
    }
    scene
}

fn costs(scene: &Scene, plan: &GraphPlan) -> KernelCosts {
    let kernels = scene.kernels(Device::Vulkan).expect("a known device");
    costs_at(&kernels, &scene.sketch.graph(), &|id| scene.nbytes(id), &|root| {
        plan.placed(root).map(|(address, _)| address)
    })
}

#[test]
fn the_cheaper_of_two_placements_of_one_size_is_taken() {
    let mut random = Random::new(7);
    let mut improved = 0;
    for round in 0..300 {
        let scene = random_scene(&mut random);
        let given = scene.sketch.plan(Rules::GGML);
        let (size, before) = (given.buffers[0].placement.size(), costs(&scene, &given));
        let (leafs, nodes) = (scene.sketch.requests(List::Leafs), scene.sketch.requests(List::Nodes));
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let devices = Devices {
            of: &|_| Device::Vulkan,
            graph: &|| Cow::Owned(scene.sketch.graph()),
            desc: &|id| scene.desc(id),
            nbytes: &|id| scene.nbytes(id),
        };
        let wishes = Wishes { devices: Some(&devices), ..Wishes::default() };
        let mut sizes = |id: TensorId, _: BufferIndex| scene.sketch.drafts[id as usize].size;
        let (graph, buffers) = (scene.sketch.graph(), scene.sketch.buffers_with(Rules::GGML));
        let plan = plan(&graph, &buffers, requests, &mut sizes, wishes, &mut Workspace::default());
        let plan = plan.expect("sizes are small");
        let after = costs(&scene, &plan);
        assert!(after <= before, "{round}: {before:?} became {after:?}");
        assert_eq!(plan.buffers[0].placement.size(), size, "{round}");
        assert_eq!(validate(&plan.problems[0], &plan.buffers[0].placement), Ok(()), "{round}");
        assert_eq!(scene.sketch.simulate(&plan), Ok(()), "{round}");
        improved += u32::from(after < before);
    }
    assert!(improved >= 20, "{improved} of 300 graphs have a cheaper placement");
}
