//! What `lastuse explain` knows of the largest tensors at a peak: recognized patterns with their remedies, on captured graphs
//! and on the graphs that the remedies lead to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::llama_style;
use crate::support::tool::{self, stderr, stdout};
use lastuse_c_tests::{Linked, captured_graphs};
use lastuse_vendor::{Package, target_folder};
use serde_json::Value;

fn tool(arguments: &[&str]) -> String {
    let output = tool::command(arguments).output().expect("the tool starts");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    stdout(&output).to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn graph(name: &str) -> PathBuf {
    captured_graphs().join(format!("{name}.jsonl.gz"))
}

/// The largest buffer of a graph, as it is explained.
fn explained(file: &Path) -> Value {
    let json: Value = serde_json::from_str(&tool(&["explain", "--json", text(file)])).expect("JSON");
    let buffers = json["buffers"].as_array().expect("a list").clone();
    buffers.into_iter().max_by_key(|buffer| number(&buffer["lower_bound"])).expect("a buffer")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// The name of a pattern: a word, or the only key of an object.
fn pattern(large: &Value) -> Option<String> {
    let value = &large["pattern"];
    let word = value.as_str().map(str::to_owned);
    word.or_else(|| value.as_object().and_then(|object| object.keys().next().cloned()))
}

fn patterns(buffer: &Value) -> Vec<Option<String>> {
    buffer["remedies"]["largest"].as_array().expect("a list").iter().map(pattern).collect()
}

fn bound(name: &str) -> u64 {
    number(&explained(&graph(name))["lower_bound"])
}

#[test]
fn scores_of_attention_are_recognized_and_flash_attention_lowers_the_peak() {
    for (with_scores, with_flash) in [
        ("sd-sd1-unet-512", "sd-sd1-unet-512-flash"),
        ("sd-sdxl-unet-1024", "sd-sdxl-unet-1024-flash"),
        ("whisper-large-v3-softmax-encode", "whisper-large-v3-encode"),
        ("llama-8-softmax", "llama-8-flash"),
    ] {
        let explanation = explained(&graph(with_scores));
        let found = patterns(&explanation);
        assert!(found.contains(&Some("attention_scores".to_owned())), "{with_scores}: {found:?}");
        assert!(bound(with_flash) < number(&explanation["lower_bound"]), "{with_flash} is not smaller");
        let flash = patterns(&explained(&graph(with_flash)));
        assert!(!flash.contains(&Some("attention_scores".to_owned())), "{with_flash}: {flash:?}");
    }
}

#[test]
fn logits_of_all_tokens_are_recognized() {
    let explanation = explained(&graph("flash-v128k-llama"));
    let largest = &explanation["remedies"]["largest"][0];
    assert_eq!(largest["pattern"]["logits"]["tokens"], 512, "{largest}");
    let share = number(&largest["bytes"]) * 100 / number(&explanation["lower_bound"]);
    assert!(share > 80, "{share} % of the peak");
    let text = tool(&["explain", text(&graph("flash-v128k-llama"))]);
    assert!(text.contains("logits of 512 tokens, 501.00 KiB each"), "{text}");
}

#[test]
fn convolutions_and_training_are_recognized() {
    let found = patterns(&explained(&graph("sd-vae-decoder-512")));
    assert_eq!(found.first(), Some(&Some("columns".to_owned())), "{found:?}");
    for name in ["train-4-256", "train-8-512", "train-24-512"] {
        let explanation = explained(&graph(name));
        let [kept, peak] = [&explanation["remedies"]["kept_for_backward"], &explanation["lower_bound"]].map(number);
        assert!(kept * 2 > peak && kept < peak, "{name}: {kept} of {peak}");
        let recomputed = tool(&["plan", "--recompute", "50%", text(&graph(name))]);
        assert_eq!(recomputed.lines().count(), 2, "half as much is enough: {recomputed}");
        assert!(!patterns(&explanation).contains(&Some("logits".to_owned())), "a loss needs all logits: {explanation}");
    }
    assert_eq!(explained(&graph("llama-8-flash"))["remedies"]["kept_for_backward"], 0);
}

/// The blocks of a graph as rows of a placement problem: without the largest at the peak, the lower bound is the one that the
/// explanation has.
#[test]
fn peaks_without_the_largest_tensor_are_those_of_the_other_blocks() {
    let folder = target_folder().join("c-tests/explained-remedies-files");
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    for name in ["flash-v128k-llama", "sd-vae-decoder-512", "whisper-base-encode"] {
        let explanation = explained(&graph(name));
        let (peak, large) = (number(&explanation["peak"]["step"]), &explanation["remedies"]["largest"][0]);
        let rows = tool(&["convert", text(&graph(name)), "-o", "-"]);
        let is_large = |row: &&str| {
            let cells: Vec<u64> = row.split(',').filter_map(|cell| cell.parse().ok()).collect();
            matches!(cells[..], [_, lower, upper, size, ..]
                if (lower..upper).contains(&peak) && size.next_multiple_of(32) == number(&large["bytes"]))
        };
        let removed: Vec<&str> = rows.lines().skip(1).filter(is_large).collect();
        assert!(!removed.is_empty(), "{name}: no block is as large: {large}");
        let rest: String = rows.lines().filter(|row| *row != removed[0]).map(|row| format!("{row}\n")).collect();
        let file = folder.join(format!("{name}.csv"));
        fs::write(&file, rest).expect("the target folder can be written to");
        let table = tool(&["plan", "--effort", "0", text(&file)]);
        let bound = table.lines().nth(1).and_then(|row| row.split_whitespace().nth(4));
        assert_eq!(bound, Some(large["lower_bound_without"].to_string().as_str()), "{name}: {table}");
    }
}

/// The largest graph of a program with a prompt of this number of tokens, and room for 512 in its caches.
fn captured(tokens: u32, options: &[&str]) -> Value {
    let program = llama_style::build("explained-remedies", Package::LlamaCpp, Linked::SharedGgml);
    let folder = target_folder()
        .join("c-tests/explained-remedies-files")
        .join([&[&*tokens.to_string()], options].concat().join("-"));
    let _ = fs::remove_dir_all(&folder);
    let [prompt, decode] = [tokens, 512 - tokens].map(|count| count.to_string());
    let shape = ["--layers", "2", "--width", "256", "--ffn", "512", "--threads", "1"];
    let length = ["--prompt", &prompt, "--decode", &decode];
    let arguments = [&["run", "--capture", text(&folder), text(program.path())], &shape[..], &length, options].concat();
    let output = tool::command(&arguments).output().expect("the tool starts");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json = tool(&["explain", "--json", text(&folder)]);
    let graphs = json.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["buffers"][0].clone());
    graphs.max_by_key(|buffer| number(&buffer["lower_bound"])).expect("a graph")
}

#[test]
fn half_as_many_tokens_take_what_is_promised() {
    let [whole, half] = [256, 128].map(|tokens| captured(tokens, &["--vocab", "500"]));
    let batch = &whole["remedies"]["batch"];
    assert_eq!(batch["tokens"], 256, "{whole}");
    let (promised, found) = (number(&batch["lower_bound_of_half"]), number(&half["lower_bound"]));
    assert!(promised.abs_diff(found) * 50 <= found, "{promised} bytes are promised, {found} are taken");
    assert!(found < number(&whole["lower_bound"]));
}

#[test]
fn logits_of_one_token_take_what_is_promised() {
    let [all, last] = ["all", "last"].map(|logits| captured(128, &["--vocab", "8000", "--logits", logits]));
    let large = &all["remedies"]["largest"][0];
    assert_eq!(large["pattern"]["logits"]["tokens"], 128, "{all}");
    let found = number(&last["lower_bound"]);
    let promised = number(&large["lower_bound_without"]) + number(&large["bytes"]) / 128;
    assert!(found <= promised && promised < number(&all["lower_bound"]), "{promised} are promised, {found} are taken");
    assert!(!patterns(&last).contains(&Some("logits".to_owned())), "{last}");
}

/// Orders that the tool finds for a graph whose peak is inherent are not smaller than it says.
#[test]
fn no_order_takes_less_than_what_is_inherent() {
    for name in ["flash-v32k-llama4", "flash-v32k-mamba2", "flash-v128k-llama", "whisper-base-decode"] {
        let explanation = explained(&graph(name));
        let found = &explanation["remedies"]["inherent"];
        assert!(!found.is_null(), "{name}: {explanation}");
        let bytes = number(&found["of_node"]) + number(&found["across"]);
        assert!(bytes <= number(&explanation["lower_bound"]), "{name}: {explanation}");
        let table = tool(&["plan", "--reorder", "--effort", "0", text(&graph(name))]);
        let bound =
            table.lines().nth(1).and_then(|row| row.split_whitespace().nth(4)).and_then(|cell| cell.parse().ok());
        assert!(bound.is_some_and(|bound: u64| bound >= bytes), "{name}: {bytes} in every order, {table}");
    }
}

/// What a pass is said to leave of a peak is a budget that it meets; such a peak is not inherent.
#[test]
fn passes_save_what_is_promised() {
    for (name, pass, option) in [
        ("llama-8-softmax", "tiling", "--tile"),
        ("whisper-base-encode", "tiling", "--tile"),
        ("sd-sd1-unet-512", "tiling", "--tile"),
        ("train-4-256", "recomputation", "--recompute"),
        ("train-24-512", "recomputation", "--recompute"),
    ] {
        let explanation = explained(&graph(name));
        let remedies = &explanation["remedies"];
        let lowered = &remedies["passes"][0];
        let [saves, left, given] =
            [&lowered["saves"], &lowered["lower_bound"], &explanation["lower_bound"]].map(number);
        assert!(lowered["pass"] == pass && saves * 3 > given && saves + left == given, "{name}: {lowered} of {given}");
        assert!(remedies["inherent"].is_null(), "{name}: {remedies}");
        tool(&["plan", option, &left.to_string(), text(&graph(name))]);
    }
}

#[test]
fn most_captured_graphs_have_a_remedy_or_are_inherent() {
    let files = fs::read_dir(captured_graphs()).expect("the graphs are committed").flatten().map(|entry| entry.path());
    let (mut known, mut all, mut counts) = (0, 0, BTreeMap::<String, usize>::new());
    for file in files.filter(|file| text(file).ends_with(".jsonl.gz")) {
        let remedies = &explained(&file)["remedies"];
        let mut found: Vec<String> =
            remedies["largest"].as_array().expect("a list").iter().filter_map(pattern).collect();
        found.extend(Some("batch".to_owned()).filter(|_| !remedies["batch"].is_null()));
        found.extend(Some("kept".to_owned()).filter(|_| number(&remedies["kept_for_backward"]) > 0));
        let passes = remedies["passes"].as_array().expect("a list").iter();
        found.extend(passes.filter_map(|lowered| lowered["pass"].as_str()).map(str::to_owned));
        found.extend(Some("inherent".to_owned()).filter(|_| !remedies["inherent"].is_null()));
        found.sort();
        found.dedup();
        (known, all) = (known + usize::from(!found.is_empty()), all + 1);
        found.into_iter().for_each(|name| *counts.entry(name).or_default() += 1);
    }
    println!("{known} of {all}: {counts:?}");
    assert!(all > 100 && known * 10 >= all * 8, "{known} of {all}: {counts:?}");
}
