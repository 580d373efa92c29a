//! What `lastuse measure --why` answers to questions that users ask of llama.cpp, on devices of the tests: the tables of
//! docs/measure.md.

use std::fmt::Write;
use std::fs;

use lastuse_c_tests::{PlacedModel, Program, folder};
use serde_json::Value;

use crate::placed_devices::program;
use crate::support;

/// A model of the shape of Mixtral 8x7B, whose file holds nothing but its header.
const MIXTRAL: PlacedModel = PlacedModel {
    name: "mixtral.gguf",
    shape: "--type q4_0-zeros --layers 32 --width 4096 --heads 32 --kv-heads 8 --ffn 14336 --experts 8 --used 2 --vocab 32000 \
            --context 32768",
};

/// One of the shape of Qwen3 Reranker 0.6B.
const RERANKER: PlacedModel = PlacedModel {
    name: "reranker.gguf",
    shape: "--type q4_0-zeros --layers 28 --width 1024 --heads 16 --kv-heads 8 --ffn 3072 --vocab 151669 --tied 1 \
            --context 32768",
};

/// What is measured of a model with these arguments.
struct Measured(Value);

fn measured(model: &PlacedModel, arguments: &str) -> Measured {
    let program = program();
    let model = support::expect(program.model(model));
    let [path, model] = [program.path(), &model].map(|path| path.to_string_lossy());
    let all = ["measure", "--why", "--json", &*path, &*model, "-t", "1", "-nr", "--max-buffer", "1000000000000"];
    let all: Vec<&str> = all.into_iter().chain(arguments.split_whitespace()).collect();
    let outcome = support::expect(Program::existing(program.tool()).run_with(&all, &program.environment()));
    assert_eq!(outcome.code, Some(0), "{arguments}: {}", outcome.describe());
    Measured(serde_json::from_str(&outcome.stdout).expect("one line of JSON"))
}

/// Formats bytes as the tables do.
#[allow(clippy::cast_precision_loss, reason = "two digits are shown")]
fn mib(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / f64::from(1 << 20))
}

impl Measured {
    fn device(&self, name: &str) -> &Value {
        let devices = self.0["processes"][0]["devices"].as_array().expect("a list");
        devices.iter().find(|device| device["name"] == name).unwrap_or_else(|| panic!("no {name} in {}", self.0))
    }

    /// Returns the bytes of a class, or all.
    fn bytes(&self, device: &str, class: &str) -> u64 {
        self.device(device)[class].as_u64().expect("bytes")
    }

    /// Returns the bytes of all causes on a device with these words.
    fn cause(&self, device: &str, words: &str) -> u64 {
        let causes = self.device(device)["causes"].as_array().expect("a list").iter();
        let causes = causes.filter(|cause| cause["what"].as_str().is_some_and(|what| what.contains(words)));
        causes.map(|cause| cause["bytes"].as_u64().expect("bytes")).sum()
    }

    /// Returns what a device would hold with an option that was tried, or as it is if nothing changes there.
    fn with_option(&self, option: &str, device: &str) -> u64 {
        let options = self.0["options"].as_array().expect("a list");
        let tried = options.iter().find(|tried| tried["option"] == option);
        let tried = tried.unwrap_or_else(|| panic!("{option} was not tried: {options:?}"));
        let mut devices = tried["devices"].as_array().expect("a list").iter();
        let found = devices.find(|it| it["device"] == device).and_then(|it| it["after"].as_u64());
        found.unwrap_or_else(|| self.bytes(device, "total"))
    }
}

/// Compares a table of the page with rows, which are cells.
fn expect_in_page(rows: &[Vec<String>]) {
    let page = folder().with_file_name("docs").join("measure.md");
    let page = fs::read_to_string(&page).expect("the page");
    let mut lines = String::new();
    for row in rows {
        let _ = writeln!(lines, "| {} |", row.join(" | "));
    }
    assert!(page.contains(&lines), "docs/measure.md does not have these lines:\n{lines}");
}

#[test]
fn each_card_needs_what_one_layer_needs() {
    let found = measured(&MIXTRAL, "--gpus 4 --pipelines -ngl 99 -ts 20,8,3,2 -c 32768 -ub 512");
    let one_copy = "ggml built with GGML_SCHED_MAX_COPIES=1";
    let rows = ["GPU0", "GPU1", "GPU2", "GPU3"].map(|gpu| {
        let [weights, compute, total] = ["weights", "compute", "total"].map(|class| found.bytes(gpu, class));
        let [layer, copies] =
            ["what a layer alone needs", "copies for a pipeline"].map(|words| found.cause(gpu, words));
        assert_eq!(layer, found.cause("GPU0", "what a layer alone needs"), "{gpu}");
        // Nothing of importance is left.
        assert!(layer + copies > compute - (1 << 20), "{gpu}: {}", found.device(gpu));
        let saved = total - found.with_option(one_copy, gpu);
        let cells = [weights, compute, layer, copies, compute - saved].map(mib);
        [vec![gpu.to_owned()], cells.to_vec()].concat()
    });
    expect_in_page(&rows);
}

#[test]
fn a_card_with_some_layers_has_copies_of_the_weights_of_others() {
    let arguments = ["-ngl 20", "-ngl 20 --no-op-offload", "-ngl 99"];
    let all = arguments.map(|words| measured(&MIXTRAL, &format!("--gpus 1 {words} -c 32768 -ub 512")));
    let staged = |found: &Measured| found.cause("GPU0", "weights of the host, copied for large batches");
    let [some, here, whole] = &all;
    assert!(some.bytes("GPU0", "compute") > whole.bytes("GPU0", "compute") && staged(some) > 0);
    assert_eq!((staged(here), staged(whole)), (0, 0));
    // The option that was tried is what it is when it is given.
    for device in ["GPU0", "CPU"] {
        assert_eq!(some.with_option("--no-op-offload", device), here.bytes(device, "total"), "{device}");
    }
    let cells = |found: &Measured| {
        [found.bytes("GPU0", "compute"), staged(found), found.bytes("CPU", "compute")].map(mib).to_vec()
    };
    let rows = arguments.iter().zip(&all).map(|(words, found)| [vec![format!("`{words}`")], cells(found)].concat());
    expect_in_page(&rows.collect::<Vec<_>>());
}

#[test]
fn the_host_has_what_stays_there() {
    let arguments = ["-ngl 99", "-ngl 99 -nkvo", "-ngl 99 --n-cpu-moe 32"];
    let rows = arguments.map(|words| {
        let found = measured(&MIXTRAL, &format!("--gpus 1 {words} -c 32768 -ub 512"));
        let names = ["token_embd.weight", "_exps.weight", "cache_"].map(|words| found.cause("CPU", words));
        let [embeddings, experts, caches] = names;
        assert_eq!(caches, found.bytes("CPU", "kv"), "{words}");
        assert_eq!(embeddings + experts, found.bytes("CPU", "weights"), "{words}");
        let classes = ["compute", "total"].map(|class| found.bytes("CPU", class));
        let cells = [embeddings, experts, caches, classes[0], classes[1]].map(mib);
        [vec![format!("`{words}`")], cells.to_vec()].concat()
    });
    expect_in_page(&rows);
}

#[test]
fn scores_grow_with_the_square_of_the_batch_and_logits_with_the_batch() {
    let mut rows = Vec::new();
    let mut scores = Vec::new();
    for batch in [1024, 2048, 4096] {
        let of = |model: &PlacedModel, more: &str| {
            let found = measured(model, &format!("--gpus 1 -ngl 99 -c {batch} -ub {batch} --tokens 0 {more}"));
            let causes = ["scores of attention", "logits of "].map(|words| found.cause("GPU0", words));
            (found.bytes("GPU0", "compute"), causes)
        };
        let [(without, [of_scores, _]), (with, _)] = ["-fa off", "-fa on"].map(|flash| of(&MIXTRAL, flash));
        let (ranking, [_, logits]) = of(&RERANKER, "-fa on --rerank");
        scores.push(of_scores);
        assert!(logits > ranking / 2 && logits == batch * 151_669 * 4, "{batch}: {logits} of {ranking}");
        rows.push([vec![batch.to_string()], [without, of_scores, with, ranking, logits].map(mib).to_vec()].concat());
    }
    // Smaller ones are not at the peak.
    assert_eq!(scores, [0, 0, 4096 * 4096 * 32 * 4]);
    expect_in_page(&rows);
}
