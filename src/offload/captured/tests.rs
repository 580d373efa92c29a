//! Items of captured graphs, and the compute buffers of offload plans.

use crate::graph::snapshot::Snapshot;
use crate::offload::device::Device;
use crate::offload::item::{Item, ItemClass, ItemKind};
use crate::offload::planner::{Assignment, Measure, Place, Request, Usage};
use crate::offload::rules::SchedulerOptions;
use crate::offload::rules::tests::scene::Scene;

use super::{CapturedCompute, CapturedItems, CapturedRule, LayerHomes, layer_device, untied};

/// An embedding, a layer with a matrix and a cache that it writes to, and an output.
fn graph(rows: u64, weight: u64) -> Snapshot {
    let mut scene = Scene::new();
    let embedding = scene.weight(6400, 1);
    scene.name(embedding, "token_embd.weight");
    let tokens = scene.input(rows);
    let matrix = scene.weight(weight, 1);
    scene.name(matrix, "blk.0.ffn_up.weight");
    let cache = scene.cache(500, 1);
    scene.name(cache, "cache_k_l0");
    let output = scene.weight(900, 1);
    scene.name(output, "output.weight");
    let x = scene.node("GET_ROWS", [64, rows], &[embedding, tokens]);
    let x = scene.node("MUL_MAT", [64, rows], &[matrix, x]);
    let written = scene.view("SET_ROWS", cache, 500, &[x, tokens]);
    let x = scene.node("ADD", [64, rows], &[x, written]);
    scene.node("MUL_MAT", [64, rows], &[output, x]);
    scene.snapshot()
}

fn devices() -> [Device; 2] {
    [Device { budget: Some(1 << 30), ..Device::new("gpu") }, Device::new("cpu")]
}

#[test]
fn weights_and_caches_are_items_once_with_the_bytes_that_runs_read() {
    let found = CapturedItems::of(&[graph(2, 1000), graph(40, 1000)]).expect("one program");
    let named = |name: &str| {
        let item = found.items.iter().find(|item| item.name == name).expect("an item");
        (item.kind, item.class, item.layer, item.bytes)
    };
    assert_eq!(found.items.len(), 4);
    assert_eq!(named("token_embd.weight"), (ItemKind::Weight, ItemClass::Embedding, None, 6400));
    assert_eq!(named("blk.0.ffn_up.weight"), (ItemKind::Weight, ItemClass::Ffn, Some(0), 1000));
    assert_eq!(named("cache_k_l0"), (ItemKind::Cache, ItemClass::KeyCache, Some(0), 500));
    assert_eq!(named("output.weight"), (ItemKind::Weight, ItemClass::Output, None, 900));
    let benefit = |name: &str| found.items.iter().find(|item| item.name == name).map(|item| item.benefit);
    // Both graphs read all of the matrix.
    assert_eq!(benefit("blk.0.ffn_up.weight"), Some(2000.0));
    assert_eq!(benefit("output.weight"), Some(1800.0));
}

#[test]
fn an_embedding_that_is_the_head_too_is_on_the_host_and_with_the_output() {
    let mut scene = Scene::new();
    let tied = scene.weight(6400, 1);
    scene.name(tied, "token_embd.weight");
    let tokens = scene.input(2);
    let x = scene.node("GET_ROWS", [64, 2], &[tied, tokens]);
    scene.node("MUL_MAT", [100, 2], &[tied, x]);
    let tied = scene.snapshot();
    let untied = untied(tied.clone());
    let sources = |node: usize| untied.graph.sources(untied.graph.nodes()[node])[0] as usize;
    let (embedding, head) = (sources(0), sources(1));
    assert!(embedding != head && untied.tensors[embedding].name == untied.tensors[head].name);
    assert_eq!(untied.graph.leafs().len(), tied.graph.leafs().len() + 1);
    assert_eq!(super::untied(untied.clone()).graph, untied.graph, "it is done once");
    let snapshots = [untied];
    let found = CapturedItems::of(&snapshots).expect("one program");
    let items: Vec<_> = found.items.iter().map(|item| (item.class, item.bytes, item.is_on_host)).collect();
    assert_eq!(items, [(ItemClass::Embedding, 6400, false), (ItemClass::Output, 6400, true)]);
    let devices = devices();
    let weights = |head: usize| {
        let assignment = Assignment([1, head].map(|device| Place { device, rows: None }).to_vec());
        let request = Request::new(&devices, &found.items);
        [0, 1].map(|device| Usage::of_items(&request, &assignment, device).expect("it fits").weights)
    };
    assert_eq!((weights(0), weights(1)), ([6400, 6400], [0, 6400]));
}

#[test]
fn graphs_and_models_of_different_programs_are_refused() {
    let why = CapturedItems::of(&[graph(2, 1000), graph(2, 2000)]).expect_err("two programs").to_string();
    assert!(why.starts_with("\"blk.0.ffn_up.weight\" has 1000 bytes in \"scene\" and 2000 in \"scene\""), "{why}");
    let mut found = CapturedItems::of(&[graph(2, 1000)]).expect("one program");
    let model =
        [("blk.0.ffn_up.weight", 990), ("blk.7.spare.weight", 70)].map(|(name, bytes)| (name.to_owned(), bytes));
    assert_eq!(found.add_unread("model.gguf", model), Ok(()));
    let added = found.items.last().expect("added");
    assert_eq!(
        (added.name.as_str(), added.bytes, added.layer, added.benefit),
        ("blk.7.spare.weight", 70, Some(7), 0.0)
    );
    let other = [("output.weight".to_owned(), 901)];
    assert!(found.add_unread("model.gguf", other).is_err_and(|why| why.to_string().contains("901 in \"model.gguf\"")));
}

/// Two weights and a cache without names, which a batch of rows reads; `fills` it, or reads it.
fn unnamed_graph([first, second, cache]: [u64; 3], rows: u64, cache_name: &str, fills: bool) -> Snapshot {
    let mut scene = Scene::new();
    let (first, second, cached) = (scene.weight(first, 1), scene.weight(second, 1), scene.cache(cache, 1));
    let x = scene.input(rows);
    for (id, name) in [(first, "leaf_0"), (second, "leaf_1"), (cached, cache_name)] {
        scene.name(id, name);
    }
    let x = scene.node("MUL_MAT", [64, rows], &[first, x]);
    let x = scene.node("MUL_MAT", [64, rows], &[second, x]);
    let cached = if fills { scene.view("CPY", cached, cache, &[x]) } else { cached };
    scene.node("ADD", [64, rows], &[x, cached]);
    scene.snapshot()
}

/// As whisper.cpp has them: each scheduler has weights without names, and one fills a cache that another reads.
#[test]
fn unnamed_tensors_of_several_schedulers_are_apart() {
    let graphs = [
        unnamed_graph([1000, 700, 500], 2, "leaf_2", true),
        unnamed_graph([300, 700, 500], 2, "leaf_2", false),
        unnamed_graph([300, 700, 500], 40, "leaf_2", false),
    ];
    let found = CapturedItems::of(&graphs).expect("one program");
    let listed: Vec<_> = found.items.iter().map(|item| (item.name.as_str(), item.bytes, item.kind)).collect();
    assert_eq!(
        listed,
        [
            ("leaf_0", 1000, ItemKind::Weight),
            ("leaf_1", 700, ItemKind::Weight),
            ("leaf_2", 500, ItemKind::Cache),
            ("leaf_0 of scene", 300, ItemKind::Weight),
            ("leaf_1 of scene", 700, ItemKind::Weight),
        ]
    );
    let items = |graph: usize| found.of_tensors[graph].iter().flatten().copied().collect::<Vec<_>>();
    assert_eq!([items(0), items(1), items(2)], [vec![0, 1, 2], vec![3, 4, 2], vec![3, 4, 2]]);
}

#[test]
fn compute_buffers_follow_the_offload() {
    let (snapshots, devices) = ([graph(2, 1000), graph(20, 1000)], devices());
    let found = CapturedItems::of(&snapshots).expect("one program");
    let rule = CapturedRule::Scheduler(SchedulerOptions::default());
    let mut compute = CapturedCompute::new(&snapshots, &found, &devices, rule);
    let mut with = |device: usize| {
        let assignment = Assignment(vec![Place { device, rows: None }; found.items.len()]);
        let of_graphs = [0, 1].map(|graph| compute.of_graph(graph, &assignment).expect("placed"));
        let measured = compute.measure(&assignment).expect("placed");
        let largest: Vec<u64> = of_graphs[0].iter().zip(&of_graphs[1]).map(|(one, other)| *one.max(other)).collect();
        assert_eq!(measured, largest);
        measured
    };
    let (on_gpu, on_cpu) = (with(0), with(1));
    assert!(on_gpu[0] >= 64 * 20 && on_cpu[0] == 0 && on_cpu[1] >= 64 * 20, "{on_gpu:?} {on_cpu:?}");
}

#[test]
fn layers_are_where_their_caches_are_or_most_of_their_bytes() {
    let found = CapturedItems::of(&[graph(2, 1000)]).expect("one program");
    let device = |places: [usize; 4]| {
        let assignment = Assignment(places.map(|device| Place { device, rows: None }).to_vec());
        layer_device(&found.items, &assignment, 1, |item| item.layer == Some(0))
    };
    // In the order of the graph: embedding, matrix, cache, output.
    assert_eq!((device([1, 0, 1, 1]), device([1, 1, 0, 1]), device([0, 1, 1, 0])), (Some(0), Some(0), Some(1)));
    let nothing = Assignment(vec![Place { device: 0, rows: None }; 4]);
    assert_eq!(layer_device(&found.items, &nothing, 1, |item| item.layer == Some(9)), None);
}

/// Layers with a weight and a cache each, and the output; devices of the weights, then of the caches.
fn homes(weights: &[usize], caches: &[usize], host: usize) -> LayerHomes {
    let item = |name: String, kind: ItemKind, class: ItemClass, layer: Option<u32>| Item {
        name,
        kind,
        class,
        bytes: 10,
        layer,
        benefit: 1.0,
        pinned: None,
        rows: None,
        is_on_host: false,
    };
    let (mut items, mut places) = (Vec::new(), Vec::new());
    for (layer, (&weight, &cache)) in (0..).zip(weights.iter().zip(caches)) {
        items.push(item(format!("blk.{layer}.ffn_up.weight"), ItemKind::Weight, ItemClass::Ffn, Some(layer)));
        items.push(item(format!("cache_k_l{layer}"), ItemKind::Cache, ItemClass::KeyCache, Some(layer)));
        places.extend([weight, cache]);
    }
    items.push(item("output.weight".to_owned(), ItemKind::Weight, ItemClass::Output, None));
    places.push(weights[caches.len()]);
    let places = places.into_iter().map(|device| Place { device, rows: None });
    LayerHomes::of(&items, &Assignment(places.collect()), host)
}

#[test]
fn homes_of_layers_are_those_that_llama_cpp_can_have() {
    let all = homes(&[0, 0, 0], &[0, 0], 1);
    assert_eq!((all.homes.as_slice(), all.is_all_on_devices(), all.on_devices()), ([0, 0, 0].as_slice(), true, 3));
    // The output follows the layer before it, though it is on the host itself.
    assert_eq!(homes(&[1, 0, 1], &[1, 0], 1).homes, [1, 0, 0]);
    let caches_on_host = homes(&[0, 0, 0], &[1, 1], 1);
    assert!(caches_on_host.are_caches_on_host && caches_on_host.is_all_on_devices());
    // llama.cpp has the first cache on the host with its layer, whose weights are named then.
    let some_caches = homes(&[0, 0, 0], &[1, 0], 1);
    assert_eq!((some_caches.homes.as_slice(), some_caches.has_exceptions), ([1, 0, 0].as_slice(), true));
    assert!(!some_caches.are_caches_on_host);
    let nothing = homes(&[1, 1, 1], &[1, 1], 1);
    assert!(!nothing.are_caches_on_host && !nothing.is_all_on_devices() && nothing.on_devices() == 0);
    // Devices have contiguous ranges in their order.
    let back = homes(&[1, 0, 1, 0], &[2, 2, 2], 2);
    assert_eq!((back.homes.as_slice(), back.of_layer(1), back.of_layer(9)), ([1, 1, 1, 1].as_slice(), Some(1), None));
    assert_eq!(homes(&[0, 1, 2, 1], &[0, 1, 1], 2).homes, [0, 1, 1, 1]);
}

#[test]
fn results_of_layers_follow_llama_cpp() {
    // Everything on the device but for the cache: llama.cpp has assigned the norm of a batch to the layer's device.
    let mut scene = Scene::new();
    let (weight, cache) = (scene.weight(640, 0), scene.cache(640, 1));
    scene.name(weight, "blk.0.ffn_up.weight");
    scene.name(cache, "cache_k_l0");
    let (x, ids) = (scene.input(64 * 40), scene.input(40));
    let written = scene.view("SET_ROWS", cache, 640, &[x, ids]);
    let norm = scene.node("RMS_NORM", [64, 40], &[written]);
    scene.name(norm, "norm-0");
    let attention = scene.node("CONT", [64, 40], &[norm]);
    scene.name(attention, "kqv_out-0");
    scene.node("MUL_MAT", [64, 40], &[weight, attention]);
    let (snapshots, devices) = ([scene.snapshot()], devices());
    let found = CapturedItems::of(&snapshots).expect("one program");
    let rule = CapturedRule::Scheduler(SchedulerOptions::default());
    let compute = CapturedCompute::new(&snapshots, &found, &devices, rule);
    let executes = |places: [usize; 2]| {
        let assignment = Assignment(places.map(|device| Place { device, rows: None }).to_vec());
        let schedule = compute.schedule(0, &assignment).expect("placed");
        [norm, attention].map(|node| schedule.executes[node as usize])
    };
    assert_eq!(found.items.iter().map(|item| item.kind).collect::<Vec<_>>(), [ItemKind::Weight, ItemKind::Cache]);
    assert_eq!(executes([0, 1]), [Some(0), Some(1)], "the norm on its layer's device, attention on the host");
    assert_eq!(executes([0, 0]), [Some(0), Some(0)]);
}
