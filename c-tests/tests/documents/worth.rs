//! The numbers of `docs/worth.md` are those of the captured graphs, and those of the pages that it repeats.

use lastuse_c_tests::read_graph;
use serde_json::Value;

use super::{Page, page, printed, repository, tables};
use crate::support::expect;

/// Weights of Llama 3 8B, and their bits in Q4_0.
const WEIGHTS: (f64, f64) = (8.03e9, 4.5);
const LAYERS: f64 = 32.0;
const MIB: f64 = 1_048_576.0;

fn worth() -> Page {
    page("docs/worth.md")
}

/// Returns the table with a title.
fn table<'p>(page: &'p Page, title: &str) -> Vec<Vec<&'p str>> {
    let found = tables(page).into_iter().find(|table| table[0].contains(&title));
    found.unwrap_or_else(|| panic!("{}: no table has the title {title:?}", page.name))
}

/// Returns how much less `after` is: "-11.2 %".
fn change(before: f64, after: f64) -> String {
    format!("{:.1} %", (after / before - 1.0) * 100.0)
}

fn bytes(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Returns what `lastuse explain` states about the buffer of a graph.
fn explained(graph: &str, options: &[&str]) -> Value {
    let file = format!("c-tests/graphs/{graph}.jsonl.gz");
    let arguments = ["explain", "--json", "--top", "1"].iter().chain(options).copied().chain([file.as_str()]);
    let output = printed(&arguments.map(str::to_owned).collect::<Vec<_>>());
    let explanation: Value = serde_json::from_str(output.lines().next().expect("a line")).expect("JSON");
    explanation["buffers"][0].clone()
}

#[test]
fn compute_buffers_are_those_of_the_captured_graphs() {
    let page = worth();
    let table = table(&page, "lastuse with `-ub 256`");
    assert!(table.len() > 10, "only {} rows", table.len() - 1);
    for row in &table[1..] {
        let graph = row[1].trim_matches('`');
        let [lastuse, ggml] = [&[] as &[&str], &["--rules", "ggml"]].map(|options| explained(graph, options));
        let before = bytes(&lastuse["ggml_alloc"]);
        let half = |buffer: &Value| bytes(&buffer["remedies"]["batch"]["lower_bound_of_half"]);
        let after = [bytes(&lastuse["size"]), half(&ggml), half(&lastuse)];
        let cells = after.map(|after| format!("{:.1} MiB, {}", after / MIB, change(before, after)));
        let expected = [format!("{:.1} MiB", before / MIB)].into_iter().chain(cells).collect::<Vec<_>>();
        assert_eq!(row[2..], expected, "{graph}");
        assert!(after[1] < after[0], "{graph}: the page says that -ub 256 saves more");
    }
}

#[test]
fn few_logits_are_those_of_the_captured_graphs() {
    let page = worth();
    let table = table(&page, "live at the peak, lastuse");
    assert!(table.len() > 5, "only {} rows", table.len() - 1);
    for row in &table[1..] {
        let graph = row[1].trim_matches('`');
        let [before, after] = [&["--rules", "ggml"] as &[&str], &[]].map(|options| {
            let logits = explained(graph, options)["remedies"]["largest"][0].clone();
            assert_eq!(logits["pattern"]["logits"]["tokens"], 512, "{graph}");
            bytes(&logits["lower_bound_without"])
        });
        let mib = |bytes: f64| format!("{:.1} MiB", bytes / MIB);
        assert_eq!(row[2..], [mib(before), format!("{}, {}", mib(after), change(before, after))], "{graph}");
    }
}

#[test]
fn caches_are_those_of_the_captured_graph() {
    let graph = "flash-v128k-llama";
    let snapshot = expect(read_graph(&repository().join(format!("c-tests/graphs/{graph}.jsonl.gz"))));
    let cache = snapshot.tensors.iter().find(|tensor| tensor.name == "cache_k_l0").expect("a cache of keys");
    #[expect(clippy::cast_precision_loss, reason = "a cache of megabytes")]
    let position = cache.nbytes as f64 / 512.0 * 2.0 * LAYERS;
    let page = worth();
    assert!(page.text.contains(&format!("{position} bytes a position")), "{position}");
    let buffer = explained(graph, &[]);
    let compute = [&buffer["ggml_alloc"], &buffer["size"]].map(bytes);
    let table = table(&page, "filled");
    for row in &table[1..] {
        let caches = [row[0], row[1]].map(|cells| cells.parse::<f64>().expect("positions") * position);
        let weights = WEIGHTS.0 * WEIGHTS.1 / 8.0;
        let [before, after] = [0, 1].map(|at: usize| weights + caches[at] + compute[at]);
        let mib = |bytes: f64| format!("{:.0} MiB", bytes / MIB);
        let expected = [caches[0], caches[1], before, after].map(mib);
        assert_eq!(row[2..6], expected, "{row:?}");
        assert_eq!(row[6], change(before, after), "{row:?}");
    }
}

/// Whole programs are not run here: the page that a row links to has the numbers, and how they were measured.
#[test]
fn whole_programs_are_those_of_the_pages_that_have_them() {
    for name in ["docs/worth.md", "docs/stable-diffusion.md"] {
        let page = page(name);
        let table = table(&page, "change");
        let mut source = None;
        for row in &table[1..] {
            let link = row[0].split("](").nth(1).and_then(|rest| rest.split(['#', ')']).next());
            source = link.map(|link| super::page(&format!("docs/{link}"))).or(source);
            let source = source.as_ref().expect("the first row has a link");
            let [before, after] = [row[1], row[2]].map(|cell| cell.parse::<f64>().expect("bytes"));
            for cell in &row[1..3] {
                assert!(source.text.contains(cell), "{} has no {cell}: {row:?}", source.name);
            }
            assert_eq!(row[3], change(before, after), "{row:?}");
        }
    }
}
