//! `lastuse plan --steps`: plans a graph that is computed in steps.

use std::fmt::Write;

use crate::usage::at_least_one;
use lastuse::graph::BufferSpec;
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::steps::{bytes_of, choose_steps, retained};

use crate::planning::check;

/// Options for steps.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Compute the graph in K steps of about as many nodes each, cut where few bytes cross.
    ///
    /// Prints a table for each file instead: the nodes of each step, the most bytes that are live while it is computed, those
    /// that are live in it and in the next one, and its last node. Above it are the bytes of the plan, in which all that a
    /// program may read between the steps is retained. Bytes are sums over all buffers. lastuse_steps_new of lastuse.h
    /// computes a graph in this way.
    #[arg(long, value_name = "K", conflicts_with = "json", value_parser = at_least_one)]
    pub steps: Option<u32>,
}

/// Plans `snapshot` in this number of steps and returns the table.
pub fn plan(file: &str, snapshot: &mut Snapshot, buffers: &[BufferSpec], count: u32) -> Result<String, String> {
    let nodes = snapshot.graph.nodes().to_vec();
    let whole = snapshot.plan_in(buffers).map_err(|error| error.to_string())?;
    let steps = choose_steps(nodes.len(), count as usize, &whole.problems).map_err(|why| why.to_string())?;
    snapshot.graph.set_retention(retained(&snapshot.graph, &steps));
    let plan = snapshot.plan_in(buffers).map_err(|error| error.to_string())?;
    check(snapshot, &plan)?;
    let bytes = plan.bytes();
    let mut text = format!("{file}: {} nodes, steps: {count}, bytes: {bytes}\n", nodes.len());
    let _ = writeln!(text, "{:>6}  {:>6}  {:>14}  {:>14}  last node", "step", "nodes", "peak", "crossing");
    for ((number, step), memory) in steps.iter().enumerate().zip(bytes_of(&steps, &plan.problems)) {
        let (nodes, last) = (step.len(), &snapshot.tensors[nodes[step.end as usize - 1] as usize].name);
        let _ = writeln!(text, "{number:>6}  {nodes:>6}  {:>14}  {:>14}  {last}", memory.peak, memory.crossing);
    }
    Ok(text)
}
