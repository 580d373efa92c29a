//! Measured graphs as a table in Markdown, a line for each family.

use std::time::Duration;

use lastuse_c_tests::aligned_table;

use crate::measure::{Both, Measured};

/// The families whose names have more than one word; all others are named by their first word.
const FAMILIES: [&str; 4] = ["flash-v32k", "flash-v128k", "noflash-v128k", "noflash-8k"];

const HEADINGS: [&str; 13] = [
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
    "bytes, kept",
    "plan, kept",
];

const LEGEND: &str = "\
ggml-alloc, MiB: the compute buffers of ggml's own allocator. The columns after it, except for counts, are ratios
lastuse / ggml-alloc (lower is better), geometric means over the graphs (\"worst\": the largest). bytes: the compute buffer.
lower bound: the live bytes at the peak. plan: time of reserve for a graph that is new to the allocator; plan again: for the one that it
planned last; alloc_graph: time of that call for a graph that it has served before. All of these with the rules of an
allocator that a scheduler uses; kept: with those of one that a program uses itself, which keeps inputs.";

/// Whether a line of the table is a family or a graph.
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
    let mut rows = vec![HEADINGS.map(str::to_owned).into()];
    for family in labels {
        let members = measured.iter().filter(|(name, _)| label(name) == family).map(|(_, measured)| measured);
        rows.push(row(&family, &members.collect::<Vec<_>>()));
    }
    rows.push(row("all", &measured.iter().map(|(_, measured)| measured).collect::<Vec<_>>()));
    format!("{}\n{LEGEND}\n", aligned_table(&rows, 1))
}

fn family_of(name: &str) -> String {
    let known = FAMILIES.iter().find(|family| name.starts_with(&format!("{family}-")));
    known.copied().unwrap_or(name.split('-').next().unwrap_or(name)).to_owned()
}

fn row(family: &str, members: &[&Measured]) -> Vec<String> {
    let nodes = members.iter().map(|measured| measured.nodes);
    let (least, most) = (nodes.clone().min().unwrap_or(0), nodes.max().unwrap_or(0));
    let bytes = members.iter().map(|measured| ratio(measured.bytes.map(|bytes| bytes as f64)));
    let all_bytes: f64 = members.iter().map(|measured| measured.bytes.upstream as f64).sum();
    let bounds = members.iter().map(|measured| measured.lower_bound as f64 / measured.bytes.upstream as f64);
    let times = |of: fn(&Measured) -> Both<Duration>| {
        let ratios = members.iter().map(|measured| ratio(of(measured).map(|time| time.as_secs_f64())));
        format!("{:.2}", geometric_mean(ratios))
    };
    vec![
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
        format!("{:.4}", geometric_mean(members.iter().map(|it| ratio(it.bytes_kept.map(|bytes| bytes as f64))))),
        times(|measured| measured.plan_kept),
    ]
}

fn ratio(both: Both<f64>) -> f64 {
    both.lastuse / both.upstream
}

fn geometric_mean(ratios: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = ratios.fold((0.0, 0), |(sum, count), ratio| (sum + ratio.ln(), count + 1));
    (sum / f64::from(count)).exp()
}
