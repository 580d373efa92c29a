//! `lastuse offload`: budgets that are kept, arguments for llama.cpp, messages, exit codes.

use std::io::Write;
use std::path::Path;
use std::process::Output;

use super::measure::program_with_device;
use crate::support::tool::{self, stderr, stdout};
use lastuse_neurons::gguf::{GgufHeader, GgufTensor};
use lastuse_vendor::target_folder;
use serde_json::Value;

/// 48 layers of a dense model, and a smaller one, with a batch each.
const DEEP: &str = "graphs/deep48-llama.jsonl.gz";
const DENSE: &str = "graphs/flash-v32k-llama.jsonl.gz";
const EXPERTS: &str = "graphs/flash-v32k-llama-moe.jsonl.gz";

fn place(graph: &str, arguments: &[&str]) -> Output {
    let file = format!("{}/{graph}", env!("CARGO_MANIFEST_DIR"));
    tool::command(&[&["offload", &*file], arguments].concat()).output().expect("the tool starts")
}

fn placed(graph: &str, arguments: &[&str]) -> Value {
    let output = place(graph, &[arguments, &["--json"]].concat());
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{arguments:?}");
    serde_json::from_str(stdout(&output)).expect("JSON")
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no number {key}: {value}"))
}

fn devices(offload: &Value) -> &Vec<Value> {
    offload["devices"].as_array().expect("devices")
}

/// Returns the bytes of the tensors that an offload plan has on a device.
fn bytes_on(offload: &Value, device: &str) -> u64 {
    let tensors = offload["tensors"].as_array().expect("tensors").iter();
    tensors.filter(|tensor| tensor["device"] == device).map(|tensor| number(tensor, "bytes")).sum()
}

#[test]
fn budgets_are_kept_from_nothing_to_everything() {
    for graph in [DEEP, DENSE, EXPERTS] {
        let everything = placed(graph, &["--device", "gpu=1T"]);
        let all = number(&devices(&everything)[0], "total");
        let mut before = 0;
        for part in [0, 1, 5, 20, 40, 60, 80, 95, 100] {
            let budget = all / 100 * part;
            let offload = placed(graph, &["--device", &format!("gpu={budget}")]);
            let gpu = &devices(&offload)[0];
            let sum: u64 = ["weights", "kv", "compute", "reserve"].iter().map(|key| number(gpu, key)).sum();
            assert!(sum == number(gpu, "total") && sum <= budget, "{graph}, budget {budget}: {gpu}");
            // Padded to 128 bytes, and no tensor of these models has less.
            assert_eq!(number(gpu, "weights") + number(gpu, "kv"), bytes_on(&offload, "gpu"), "{graph}: {gpu}");
            assert!(part < 5 || sum > budget / 4 * 3, "{graph}, budget {budget}: {sum} used");
            assert!(bytes_on(&offload, "gpu") + (1 << 30) > before, "{graph}: a larger budget places less");
            before = bytes_on(&offload, "gpu");
        }
        assert_eq!(number(&devices(&placed(graph, &["--device", &format!("gpu={all}")]))[0], "total"), all);
    }
}

/// whisper.cpp has four schedulers, and does not name its tensors: ggml calls the first leaf of each graph "leaf_0".
#[test]
fn captures_of_several_schedulers_are_one_program() {
    let graphs = ["conv", "encode", "cross", "decode"].map(|part| format!("graphs/whisper-base-{part}.jsonl.gz"));
    let files = graphs.each_ref().map(|graph| lastuse_c_tests::folder().join(graph));
    let files = files.each_ref().map(|file| file.to_str().expect("a path in UTF-8"));
    let output = tool::command(&[&["offload", "--json", "--device", "gpu=4G"], &files[..]].concat()).output();
    let output = output.expect("the tool starts");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let offload: Value = serde_json::from_str(stdout(&output)).expect("JSON");
    // The keys and values of cross-attention, which the third graph fills and the fourth reads, and those of itself.
    let named = |name: &str, bytes: u64| {
        let tensors = offload["tensors"].as_array().expect("tensors").iter();
        let is_named = |tensor: &&Value| tensor["name"].as_str().is_some_and(|found| found.starts_with(name));
        tensors.filter(is_named).filter(|tensor| tensor["bytes"] == bytes).count()
    };
    assert_eq!((named("leaf_2", 9_437_184), named("leaf_5", 9_437_184)), (1, 1), "{offload}");
    let caches = 2 * (9_437_184 + 3_145_728 + 1_572_864);
    assert_eq!(number(&devices(&offload)[0], "kv"), caches, "{offload}");
}

#[test]
fn reserves_and_granularities_are_charged() {
    let plain = placed(DENSE, &["--device", "gpu=3G"]);
    let charged = placed(DENSE, &["--device", "gpu=3G,reserve=100M,granularity=2M"]);
    let [plain, charged] = [&devices(&plain)[0], &devices(&charged)[0]];
    assert_eq!((number(plain, "reserve"), number(charged, "reserve")), (0, 100 << 20));
    assert_eq!(number(charged, "weights") % (2 << 20), 0);
    assert!(number(charged, "total") <= 3 << 30 && number(charged, "weights") < number(plain, "weights"));
}

#[test]
fn whole_layers_are_contiguous_and_have_short_arguments() {
    let offload = placed(DEEP, &["--device", "a=8G", "--device", "b=8G", "--layers"]);
    let tensors = offload["tensors"].as_array().expect("tensors");
    let home = |layer: u64| {
        let of_layer = tensors.iter().filter(|tensor| tensor["layer"].as_u64() == Some(layer));
        let mut homes: Vec<&str> = of_layer.map(|tensor| tensor["device"].as_str().expect("a name")).collect();
        homes.dedup();
        assert_eq!(homes.len(), 1, "layer {layer}");
        ["cpu", "a", "b"].iter().position(|name| *name == homes[0]).expect("a device")
    };
    let homes: Vec<usize> = (0..48).map(home).collect();
    assert!(homes.is_sorted() && homes[47] == 2 && homes[0] == 0, "{homes:?}");
    let arguments: Vec<&str> =
        offload["llama_cpp"].as_array().expect("arguments").iter().filter_map(Value::as_str).collect();
    let offloaded = 1 + homes.iter().filter(|&&home| home != 0).count();
    let on_a = homes.iter().filter(|&&home| home == 1).count();
    let split = format!("{on_a},{}", offloaded - on_a);
    assert_eq!(arguments, ["-ngl", &offloaded.to_string(), "-ts", &split]);
}

#[test]
fn experts_that_are_rarely_read_stay_on_the_host() {
    let offload = placed(EXPERTS, &["--device", "gpu=700M"]);
    let share = |is_expert: bool| {
        let tensors = offload["tensors"].as_array().expect("tensors").iter();
        let of_kind: Vec<&Value> = tensors
            .filter(|tensor| tensor["layer"].is_u64())
            .filter(|tensor| tensor["name"].as_str().is_some_and(|name| name.contains("_exps")) == is_expert)
            .collect();
        let on_gpu = of_kind.iter().filter(|tensor| tensor["device"] == "gpu").count();
        (on_gpu, of_kind.len())
    };
    let ((experts_on_gpu, experts), (others_on_gpu, others)) = (share(true), share(false));
    assert!(experts > 0 && others > 0);
    assert!(experts_on_gpu * others < others_on_gpu * experts, "{experts_on_gpu}/{experts}, {others_on_gpu}/{others}");
}

#[test]
fn budgets_that_are_too_small_are_refused_with_what_is_needed() {
    let whole = placed(DENSE, &["--device", "gpu=0"]);
    let needed = number(&devices(&whole)[1], "total");
    let enough = placed(DENSE, &["--device", "gpu=0", "--device", &format!("cpu={needed}")]);
    assert_eq!(number(&devices(&enough)[1], "total"), needed);
    let short = format!("cpu={}", needed - 1);
    let output = place(DENSE, &["--device", "gpu=0", "--device", &short, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let message = format!("cpu needs {needed} bytes, 1 more than its budget of {}", needed - 1);
    assert!(stderr(&output).contains(&message), "{}", stderr(&output));
    let refused: Value = serde_json::from_str(stdout(&output)).expect("JSON");
    assert_eq!((&refused["fits"], number(&refused["shortages"][0], "short")), (&Value::Bool(false), 1));
}

#[test]
fn text_has_a_bar_for_each_device_and_the_arguments() {
    let full = place(DENSE, &["--device", "Vulkan0=3G"]);
    assert!(stderr(&full).starts_with("lastuse: Vulkan0: nothing is reserved for the context"), "{}", stderr(&full));
    let output = place(DENSE, &["--device", "Vulkan0=3G,reserve=0"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let text = stdout(&output);
    let parts = ["Vulkan0: ", "budget 3.00 GiB (3221225472 bytes)", "  [W", "cpu: ", "no limit", "\nllama.cpp: -ngl "];
    for part in parts.into_iter().chain(["\n(for the program that was captured, with lastuse and its default rules, "])
    {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn rules_give_compute_buffers_of_their_own() {
    let compute = |rule: &str| {
        let offload = placed(DENSE, &["--device", "gpu=600M", "--rule", rule]);
        number(&devices(&offload)[0], "compute")
    };
    let [scheduler, any_operand, powerinfer] = ["scheduler", "any-operand", "powerinfer"].map(compute);
    assert!(scheduler > 0 && any_operand > 0 && powerinfer > 0);
    assert!(scheduler != any_operand || any_operand != powerinfer, "{scheduler}, {any_operand}, {powerinfer}");
}

#[test]
fn programs_that_are_none_and_wrong_kinds_are_refused() {
    let offload = |arguments: &[&str]| {
        let all = [&["offload", "--device", "gpu=1G"], arguments].concat();
        tool::command(&all).output().expect("the tool starts")
    };
    let cases: [(&[&str], i32, &str); 7] = [
        (&[], 2, "there is nothing to place: give captured graphs, or a program with its arguments behind \"--\""),
        (&["-o", "neurons.gpuidx", "--", "true"], 2, "'--output <FILE>' cannot be used with '[PROGRAM]"),
        (&["--", "/no/such/program"], 127, "no such program"),
        (&["--kind", "tensors", "graph.jsonl"], 2, "cannot be used with"),
        (&["--check", "graph.jsonl"], 2, "cannot be used with"),
        (&["--kind", "all", "--", "true"], 2, "invalid value 'all'"),
        (&["true", "-m", "model.gguf"], 125, "never used a ggml allocator"),
    ];
    for (arguments, code, message) in cases {
        let output = offload(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn programs_without_the_device_and_llama_cpps_arguments_are_told_so() {
    let program = program_with_device();
    let output = tool::command(&["offload", "--device", "GPU9=1G", "--", &program, "contexts"]).output();
    let output = output.expect("the tool starts");
    let expected = "uses no device \"GPU9\", but: GPU0; and fails with \"-ngl 999\", ";
    assert!(output.status.code() == Some(2) && stderr(&output).contains(expected), "{}", stderr(&output));
    assert!(stderr(&output).contains("one argument"), "its own message: {}", stderr(&output));
}

#[test]
fn wrong_usage_is_named() {
    let cases: [(&[&str], i32, &str); 8] = [
        (&[], 2, "--device"),
        (&["--device", "gpu"], 2, "has no budget"),
        (&["--device", "gpu=1.GiB"], 2, "is not a size"),
        (&["--device", "gpu=5QB"], 2, "is not a size"),
        (&["--device", "gpu=18446744073709551616"], 2, "is not a size"),
        (&["--device", "gpu=1G,reserve=2G"], 2, "is below the reserve"),
        (&["--device", "cpu=1G"], 2, "no device besides"),
        (&["--device", "gpu=1G", "--device", "gpu=2G"], 2, "is given twice"),
    ];
    for (arguments, code, message) in cases {
        let output = place(DENSE, arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(stderr(&output).contains(message), "{arguments:?}: {}", stderr(&output));
    }
    let largest = placed(DENSE, &["--device", "gpu=18446744073709551615"]);
    assert!(number(&devices(&largest)[0], "total") > 0);
}

/// Writes a model whose data is not on disk.
fn write_model(file: &Path, tensors: &[(&str, u64)]) {
    let mut offset = 0;
    let place = |&(name, bytes): &(&str, u64)| {
        let tensor = GgufTensor { name: name.to_owned(), dimensions: vec![bytes / 4], type_id: 0, offset };
        offset += bytes;
        tensor
    };
    let tensors: Vec<GgufTensor> = tensors.iter().map(place).collect();
    let header = GgufHeader::bytes(*b"GGUF", &[], &tensors);
    let mut out = std::fs::File::create(file).expect("the target folder can be written to");
    out.write_all(&header).expect("written");
    out.set_len(header.len() as u64 + offset).expect("the file system has sparse files");
}

#[test]
fn tensors_of_the_model_that_no_graph_reads_are_counted() {
    let folder = target_folder().join("c-tests/place-tool");
    std::fs::create_dir_all(&folder).expect("the target folder can be written to");
    let file = folder.join("model.gguf");
    let model = file.to_str().expect("a name in UTF-8");
    write_model(&file, &[("blk.0.attn_q.weight", 4096 * 4096 * 4), ("blk.9.spare.weight", 20 << 30)]);
    let without = placed(DENSE, &["--device", "gpu=3G"]);
    let with = placed(DENSE, &["--device", "gpu=3G", "--model", model]);
    let host = |offload: &Value| number(&devices(offload)[1], "weights");
    assert_eq!(host(&with), host(&without) + (20 << 30));
    assert_eq!(devices(&with)[0], devices(&without)[0]);
    write_model(&file, &[("blk.0.attn_q.weight", 4096)]);
    let output = place(DENSE, &["--device", "gpu=3G", "--model", model]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("\"blk.0.attn_q.weight\" has 67108864 bytes in \"the graphs\" and 4096 in"));
    let output = place(DENSE, &["--device", "gpu=3G", "--model", "graphs/missing.gguf"]);
    assert!(output.status.code() == Some(1) && stderr(&output).contains("missing.gguf: no such file"));
}

/// Writes the hotness of 8 layers: layer 3 is the hottest.
fn write_hotness(folder: &Path, neurons: u32) -> String {
    std::fs::create_dir_all(folder).expect("the target folder can be written to");
    for layer in 0..8u32 {
        let number =
            |neuron: u32| f32::from(u16::try_from(neuron * 7919 % 1000 + (layer == 3) as u32 * 1000).expect("small"));
        let bytes: Vec<u8> = (0..neurons).flat_map(|neuron| number(neuron).to_le_bytes()).collect();
        std::fs::write(folder.join(format!("activation_{layer}.f32")), bytes).expect("written");
    }
    folder.to_str().expect("a name in UTF-8").to_owned()
}

#[test]
fn neurons_take_the_room_that_is_left_and_are_written_for_powerinfer() {
    let folder = target_folder().join("c-tests/place-tool/hotness");
    let stats = write_hotness(&folder, 14336);
    let file = folder.join("neurons.gpuidx");
    let file = file.to_str().expect("a name in UTF-8");
    let budget = 3u64 << 30;
    let arguments = ["--device", "gpu=3G", "--order", "classes", "--hotness", &*stats, "-o", file];
    let offload = placed(DENSE, &arguments);
    let (gpu, neurons) = (&devices(&offload)[0], &offload["neurons"]);
    assert_eq!(number(gpu, "weights") + number(gpu, "kv"), bytes_on(&offload, "gpu") + number(neurons, "bytes"));
    let group = 256 * (3 * 4096 * 4 + 4);
    assert!(number(gpu, "total") <= budget && budget - number(gpu, "total") < group, "{gpu}");
    let counts: Vec<u64> =
        neurons["on_device"].as_array().expect("counts").iter().map(|count| count.as_u64().expect("a count")).collect();
    assert!(counts.len() == 8 && counts.iter().all(|&count| count <= counts[3] && count % 256 == 0), "{counts:?}");
    let allowed = number(neurons, "allowed").to_string();
    let check = ["neurons", "--check", file, "--layers", "8", "--ff", "14336", "--vram-capacity", &allowed];
    let checked = tool::command(&check).output().expect("the tool starts");
    assert!(checked.status.success(), "{}", stdout(&checked));
    let text = place(DENSE, &["--device", "gpu=3G", "--hotness", &*stats]);
    assert!(stdout(&text).contains("\nneurons: "), "{}", stdout(&text));
}

#[test]
fn hotness_of_another_model_is_refused() {
    let folder = target_folder().join("c-tests/place-tool/other-hotness");
    let stats = write_hotness(&folder, 1000);
    let output = place(DENSE, &["--device", "gpu=3G", "--hotness", &*stats]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("activation_0.f32: it has 1000 neurons, but blk.0.ffn_"), "{}", stderr(&output));
    let deep = place(DEEP, &["--device", "gpu=3G", "--hotness", &*write_hotness(&folder, 14336)]);
    assert!(stderr(&deep).contains("hotness of 8 layers, but the graphs have an FFN in layer 47"), "{}", stderr(&deep));
}

#[test]
fn graphs_without_layers_have_no_arguments_for_llama_cpp() {
    let offload = placed("graphs/train-8-512.jsonl.gz", &["--device", "gpu=100M"]);
    assert!(bytes_on(&offload, "gpu") > 0 && number(&devices(&offload)[0], "total") <= 100 << 20);
    assert_eq!(offload["llama_cpp"], Value::Array(Vec::new()));
}
