//! The numbers of `docs/gpus.md` for few logits are those of the captured graphs whose result has a single row.

use std::fs;
use std::path::{Path, PathBuf};

use lastuse_c_tests::{captured_graphs, read_graph};
use lastuse_vendor::target_folder;
use serde_json::{Value, json};

use super::{matching, page, printed, tables, words};
use crate::support::expect;

/// The element count of a row of logits.
const VOCABULARY: u64 = 128_256;

/// Cuts the logits to one row, and records what ggml-alloc takes then.
fn with_one_row(graph: &str, folder: &Path) -> PathBuf {
    let file = folder.join(Path::new(graph).file_stem().expect("a name"));
    let snapshot = expect(read_graph(&captured_graphs().join(Path::new(graph).file_name().expect("a name"))));
    let cut = |line: &str| {
        let mut tensor: Value = serde_json::from_str(line).expect("JSON");
        if tensor["kind"] == "node" && tensor["ne"][0] == VOCABULARY {
            let row = VOCABULARY * 4;
            (tensor["ne"][1], tensor["nb"]) = (json!(1), json!([4, row, row, row]));
            (tensor["nbytes"], tensor["size"]) = (json!(row), json!(row));
        }
        format!("{tensor}\n")
    };
    fs::write(&file, snapshot.text().lines().map(cut).collect::<String>()).expect("the target folder is writable");
    let mut snapshot = expect(read_graph(&file));
    snapshot.add_ggml_alloc_sizes();
    fs::write(&file, snapshot.text()).expect("the target folder is writable");
    file
}

/// Returns the change that the last line of `lastuse plan` has: "27.5 %".
fn saved(rules: &str, files: &[PathBuf]) -> String {
    let options = ["plan", "--rules", rules].map(str::to_owned);
    let files = files.iter().map(|file| file.display().to_string());
    let output = printed(&options.into_iter().chain(files).collect::<Vec<_>>());
    let mean = output.split("geometric mean ").nth(1).and_then(|rest| rest.split(',').next()).expect("a mean");
    format!("{:.1} %", (1.0 - mean.parse::<f64>().expect("a number")) * 100.0)
}

/// Returns the bytes of a graph's plan.
fn planned(rules: &str, file: &Path) -> u64 {
    let arguments = ["plan", "--json", "--rules", rules, file.to_str().expect("UTF-8")].map(str::to_owned);
    let plan: Value = serde_json::from_str(&printed(&arguments)).expect("JSON");
    plan["buffers"][0]["size"].as_u64().expect("bytes")
}

#[expect(clippy::cast_precision_loss, reason = "some megabytes")]
fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1_048_576.0)
}

#[test]
fn few_logits_are_those_of_graphs_with_one_row() {
    let folder = target_folder().join("c-tests/few-logits");
    fs::create_dir_all(&folder).expect("the target folder is writable");
    let page = page("docs/gpus.md");
    let tables = tables(&page);
    // Those of the commands that are the titles of the first two tables.
    let [any, vulkan] = [0, 1].map(|at: usize| words(tables[at][0][0].trim_matches('`'))[3].clone());
    let files: Vec<PathBuf> =
        matching("c-tests/graphs/flash-v128k-*.gz").iter().map(|graph| with_one_row(graph, &folder)).collect();
    let text = page.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let means = [&any, &vulkan].map(|rules| saved(rules, &files));
    let llama = files.iter().find(|file| file.ends_with("flash-v128k-llama.jsonl")).expect("it is captured");
    let before = expect(read_graph(llama)).buffers[0].ggml_alloc_size.expect("it is recorded");
    for claim in [
        format!("are planned in {} fewer bytes, and on Vulkan in {},", means[0], means[1]),
        format!("with few logits {} instead of {} MiB", mib(planned(&any, llama)), mib(before)),
    ] {
        assert!(text.contains(&claim), "docs/gpus.md lacks {claim:?}");
    }
}
