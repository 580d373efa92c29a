//! The cost of plans of captured graphs on devices, replayed as if the graphs had been captured there. Prints the sums.

use lastuse::graph::kernels::KernelCosts;
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{Device, GraphPlan, TensorId};
use lastuse::placement::Effort;
use lastuse_c_tests::{captured_graphs, graph_name, graphs_in, read_graph};

/// Returns the costs of a plan in the first buffer.
fn costs(snapshot: &Snapshot, plan: &GraphPlan) -> KernelCosts {
    let address = |root: TensorId| plan.placed(root).map(|(address, _)| address);
    let [costs] = snapshot.kernel_costs(0, [&address]).expect("a known device");
    costs
}

/// Plans all captured graphs on a device, and asserts that at most `graphs_with_less` have fewer fused kernels than with
/// ggml-alloc.
fn few_fusions_are_lost(name: &str, graphs_with_less: usize) {
    let device = Device::named(name);
    let (mut ours, mut theirs) = (KernelCosts::default(), KernelCosts::default());
    let mut less = Vec::new();
    let graphs = graphs_in(&captured_graphs()).expect("the graphs of the repository");
    for file in &graphs {
        let mut snapshot = read_graph(file).expect("a graph");
        name.clone_into(&mut snapshot.buffers[0].name);
        let buffers = snapshot.buffers(device.default_rules(), Effort::default());
        let plan = snapshot.plan_in(&buffers).expect("small sizes");
        let found = costs(&snapshot, &plan);
        let given = costs(&snapshot, &snapshot.plan_as_ggml().expect("small sizes"));
        if found.not_fused > given.not_fused {
            less.push(format!("{}: {given:?} became {found:?}", graph_name(file)));
        }
        for (sum, costs) in [(&mut ours, found), (&mut theirs, given)] {
            sum.fused += costs.fused;
            sum.not_fused += costs.not_fused;
            sum.barriers += costs.barriers;
        }
    }
    println!("{name}, {} graphs: {ours:?}, with ggml-alloc: {theirs:?}", graphs.len());
    assert!(less.len() <= graphs_with_less, "{}", less.join("\n"));
    assert!(ours.fused > 10, "few sequences are found in {} graphs", graphs.len());
    assert!(ours.barriers <= theirs.barriers, "{} barriers, with ggml-alloc {}", ours.barriers, theirs.barriers);
}

#[test]
fn no_fusion_of_vulkan_is_lost() {
    few_fusions_are_lost("Vulkan0", 0);
}

/// Three graphs lose the one GLU of a single token that they have.
#[test]
fn few_fusions_of_cuda_are_lost() {
    few_fusions_are_lost("CUDA0", 3);
}
