//! The table of a graph that is computed step by step, one step per line.

use std::fmt::Write;

use crate::placement::Bytes;

use super::sizes::as_float;

/// One step.
#[derive(Clone, Debug)]
pub struct StepRow {
    /// The number of its nodes.
    pub nodes: usize,
    /// The name of its last node.
    pub last_node: String,
    /// Bytes of its compute buffers.
    pub compute: Bytes,
    /// Bytes of the tensors that cross a cut, and are held during the step.
    pub crossing: Bytes,
}

/// A graph in steps.
#[derive(Clone, Debug)]
pub struct StepsTable {
    /// The name of the file.
    pub file: String,
    /// The steps in order.
    pub rows: Vec<StepRow>,
    /// Bytes of inputs and outputs, which are held all the time.
    pub kept: Bytes,
    /// The most bytes that are held at the same time.
    pub peak: Bytes,
    /// Bytes of the graph as a whole.
    pub whole: Bytes,
}

/// Formats the steps as an aligned table under the name of the file, followed by the bytes in all.
pub fn steps_table(table: &StepsTable) -> String {
    let StepsTable { file, rows, kept, peak, whole } = table;
    let nodes: usize = rows.iter().map(|row| row.nodes).sum();
    let mut text = format!("{file}: {nodes} nodes, steps: {}\n", rows.len());
    let _ = writeln!(
        text,
        "{:>6}  {:>6}  {:>14}  {:>14}  {:>14}  last node",
        "step", "nodes", "compute", "crossing", "both"
    );
    for (number, row) in rows.iter().enumerate() {
        let StepRow { nodes, last_node, compute, crossing } = row;
        let both = compute.saturating_add(*crossing);
        let _ = writeln!(text, "{number:>6}  {nodes:>6}  {compute:>14}  {crossing:>14}  {both:>14}  {last_node}");
    }
    let _ = writeln!(text, "inputs and outputs  {kept:>25}");
    let ratio = if *whole > 0 { format!(", ratio {:.3}", as_float(*peak) / as_float(*whole)) } else { String::new() };
    let _ = writeln!(text, "peak in steps  {peak:>30}");
    let _ = writeln!(text, "the graph as a whole  {whole:>23}{ratio}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_listed_with_their_sums() {
        let row = |nodes, compute, crossing| StepRow { nodes, last_node: "x".to_owned(), compute, crossing };
        let rows = vec![row(3, 100, 20), row(1, 40, 20)];
        let table = StepsTable { file: "graph".to_owned(), rows, kept: 8, peak: 128, whole: 256 };
        let text = steps_table(&table);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(text.lines().next(), Some("graph: 4 nodes, steps: 2"));
        assert_eq!(lines[2], ["0", "3", "100", "20", "120", "x"]);
        assert_eq!(lines[3], ["1", "1", "40", "20", "60", "x"]);
        assert_eq!(lines[4], ["inputs", "and", "outputs", "8"]);
        assert_eq!(lines[5], ["peak", "in", "steps", "128"]);
        assert_eq!(lines[6], ["the", "graph", "as", "a", "whole", "256,", "ratio", "0.500"]);
    }

    #[test]
    fn a_graph_without_bytes_has_no_ratio() {
        let table = StepsTable { file: "graph".to_owned(), rows: Vec::new(), kept: 0, peak: 0, whole: 0 };
        assert!(!steps_table(&table).contains("ratio"));
    }
}
