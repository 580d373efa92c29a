//! Measured graphs as a table in Markdown, a line for each family.

use std::fmt::Write;
use std::time::Duration;

use crate::measure::{Both, Measured};

/// The families whose names have more than one word; all others are named by their first word.
const FAMILIES: [&str; 3] = ["flash-v32k", "flash-v128k", "noflash-v128k"];

const HEADINGS: [&str; 11] = [
    "family",
    "graphs",
    "nodes",
    "ggml-alloc, MiB",
    "bytes",
    "worst",
    "lower bound",
    "at the bound",
    "plan",
    "plan again",
    "alloc_graph",
];

const LEGEND: &str = "\
ggml-alloc, MiB: what ggml's own allocator needs for all of them. Right of it, all but counts are lastuse's divided by those
of ggml's own allocator, geometric means over the graphs (\"worst\": the largest). bytes: the compute buffer. lower bound: the
bytes alive at the worst step. plan: time of reserve for a graph that the allocator has never seen; plan again: for the one
that it planned last; alloc_graph: time of that call for a graph that it has served before.";

/// What a line of the table stands for.
#[derive(Clone, Copy, Debug)]
pub enum Lines {
    Families,
    Graphs,
}

/// The table, with a line for all graphs at its end.
pub fn table(measured: &[(String, Measured)], lines: Lines) -> String {
    let label = |name: &str| match lines {
        Lines::Families => family_of(name),
        Lines::Graphs => name.to_owned(),
    };
    let mut labels: Vec<String> = measured.iter().map(|(name, _)| label(name)).collect();
    labels.dedup();
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    for wanted in labels {
        let members = measured.iter().filter(|(name, _)| label(name) == wanted).map(|(_, measured)| measured);
        rows.push(row(&wanted, &members.collect::<Vec<_>>()));
    }
    rows.push(row("all", &measured.iter().map(|(_, measured)| measured).collect::<Vec<_>>()));
    format!("{}\n{LEGEND}\n", aligned(&rows))
}

fn family_of(name: &str) -> String {
    let known = FAMILIES.iter().find(|family| name.starts_with(&format!("{family}-")));
    known.copied().unwrap_or(name.split('-').next().unwrap_or(name)).to_owned()
}

fn row(family: &str, members: &[&Measured]) -> [String; HEADINGS.len()] {
    let nodes = members.iter().map(|measured| measured.nodes);
    let (least, most) = (nodes.clone().min().unwrap_or(0), nodes.max().unwrap_or(0));
    let bytes = members.iter().map(|measured| ratio(measured.bytes.map(|bytes| bytes as f64)));
    let all_bytes: f64 = members.iter().map(|measured| measured.bytes.upstream as f64).sum();
    let bounds = members.iter().map(|measured| measured.lower_bound as f64 / measured.bytes.upstream as f64);
    let times = |of: fn(&Measured) -> Both<Duration>| {
        let ratios = members.iter().map(|measured| ratio(of(measured).map(|time| time.as_secs_f64())));
        format!("{:.2}", geometric_mean(ratios))
    };
    [
        family.to_owned(),
        members.len().to_string(),
        if least == most { most.to_string() } else { format!("{least} to {most}") },
        format!("{:.0}", all_bytes / f64::from(1 << 20)),
        format!("{:.4}", geometric_mean(bytes.clone())),
        format!("{:.4}", bytes.fold(0.0, f64::max)),
        format!("{:.4}", geometric_mean(bounds)),
        members.iter().filter(|measured| measured.bytes.lastuse == measured.lower_bound).count().to_string(),
        times(|measured| measured.plan),
        times(|measured| measured.plan_again),
        times(|measured| measured.alloc_graph),
    ]
}

fn ratio(both: Both<f64>) -> f64 {
    both.lastuse / both.upstream
}

fn geometric_mean(ratios: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = ratios.fold((0.0, 0), |(sum, count), ratio| (sum + ratio.ln(), count + 1));
    (sum / f64::from(count)).exp()
}

/// The first row is the heading; the first column is text, and the others are numbers.
fn aligned(rows: &[[String; HEADINGS.len()]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; HEADINGS.len()] = std::array::from_fn(width);
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let _ = write!(text, "| {:<width$} |", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            let _ = write!(text, " {cell:>width$} |");
        }
        text.push('\n');
        if number == 0 {
            let _ = write!(text, "|{}|", "-".repeat(widths[0] + 2));
            for width in &widths[1..] {
                let _ = write!(text, "{}:|", "-".repeat(width + 1));
            }
            text.push('\n');
        }
    }
    text
}
