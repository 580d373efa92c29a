//! The tables of families and of shares are those of the captured graphs.

use lastuse::placement::Bytes;
use lastuse_c_tests::read_graph;

use super::{matching, page, printed, repository, tables};
use crate::support::expect;

/// What `lastuse plan` prints below the graphs of a family.
struct Family {
    graphs: String,
    at_bound: String,
    mean: String,
    largest: String,
}

impl Family {
    fn planned(start: &str) -> Self {
        let mut arguments = vec!["plan".to_owned()];
        arguments.extend(matching(&format!("c-tests/graphs/{start}*.jsonl.gz")));
        let output = printed(&arguments);
        if arguments.len() == 2 {
            let row: Vec<&str> = output.lines().nth(1).expect("a row").split_whitespace().collect();
            let [ggml, bytes, bound] = [3, 4, 5].map(|column: usize| row[column].parse::<f64>().expect("bytes"));
            let ratio = format!("{:.4}", bytes / ggml);
            let at_bound = u8::from(bytes <= bound).to_string();
            return Self { graphs: "1".to_owned(), at_bound, mean: ratio.clone(), largest: ratio };
        }
        let summary: Vec<&str> = output.lines().last().expect("a summary").split_whitespace().collect();
        let behind = |word: &str| {
            let at = summary.iter().position(|found| *found == word).expect("a summary of ratios");
            summary[at + 1].trim_end_matches(',').to_owned()
        };
        let (graphs, at_bound) = (summary[0].to_owned(), summary[2].to_owned());
        Self { graphs, at_bound, mean: behind("mean"), largest: behind("largest") }
    }
}

/// Returns the cell of a row below a title.
fn cell<'t>(table: &[Vec<&'t str>], row: &[&'t str], title: &str) -> &'t str {
    let column = table[0].iter().position(|found| *found == title);
    row[column.unwrap_or_else(|| panic!("no column {title:?} in {:?}", table[0]))]
}

/// Times of planning, as parts of ggml-alloc's.
fn assert_is_sane_ratio(cell: &str, row: &[&str]) {
    let ratio: f64 = cell.parse().unwrap_or_else(|_| panic!("{cell:?} is not a ratio: {row:?}"));
    assert!(ratio > 0.0 && ratio < 1.0, "{row:?}");
}

#[test]
fn families_in_the_measurements_are_those_of_the_captured_graphs() {
    let page = page("docs/internals/measurements.md");
    let tables = tables(&page);
    let table = tables.iter().find(|table| table[0][0] == "family").expect("the table of families");
    assert!(table.len() > 10);
    for row in &table[1..] {
        let start = if row[0] == "all" { String::new() } else { format!("{}-", row[0]) };
        let family = Family::planned(&start);
        let cells = ["graphs", "bytes", "worst", "at the bound"].map(|title| cell(table, row, title));
        assert_eq!(cells, [&*family.graphs, &family.mean, &family.largest, &family.at_bound], "{row:?}");
        for title in ["plan", "plan again", "alloc_graph"] {
            assert_is_sane_ratio(cell(table, row, title), row);
        }
    }
}

/// Formats tenths of MiB.
fn mib(bytes: Bytes) -> String {
    let tenths = (bytes * 10 + (1 << 19)) >> 20;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[test]
fn shares_of_compute_buffers_are_those_of_the_captured_graphs() {
    let page = page("docs/internals/measurements.md");
    let tables = tables(&page);
    let table = tables.iter().find(|table| table[0].contains(&"share of both")).expect("the table of shares");
    for row in &table[1..] {
        let file = format!("c-tests/graphs/{}.jsonl.gz", row[0].trim_matches('`'));
        let snapshot = expect(read_graph(&repository().join(file)));
        let is_weight = |id: u32| snapshot.graph.tensor(id).external && snapshot.graph.tensor(id).view.is_none();
        let leafs = snapshot.graph.leafs().iter().copied().filter(|&id| is_weight(id));
        let weights: Bytes = leafs.map(|id| snapshot.tensors[id as usize].nbytes).sum();
        let buffer: Bytes = snapshot.buffers.iter().filter_map(|buffer| buffer.ggml_alloc_size).sum();
        let tenths = (buffer * 2000 / (weights + buffer)).div_ceil(2);
        let share = format!("{}.{} %", tenths / 10, tenths % 10);
        assert_eq!(row[1..], [&*mib(weights), &mib(buffer), &share], "{row:?}");
    }
}
