//! `lastuse plan --steps`: plans a graph that is computed step by step.

use std::ops::Range;

use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::steps::{PartPlanner, StepwisePlan, check_parts, choose_cuts, parts_of, plan_parts};
use lastuse::graph::{BufferIndex, BufferSpec, Requests, TensorId, simulate};
use lastuse::placement::{Bytes, Step};
use lastuse::report::{StepRow, StepsTable, steps_table};

use crate::planning::check_placement;

/// Options for steps.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Cut the graph into K steps that are planned one after the other, where the peak is lowest.
    ///
    /// Prints a table for each file instead: the nodes of each step, the bytes of its compute buffer, the bytes of the
    /// tensors that cross a cut and are held during the step, and both together. Below it: inputs and outputs, which
    /// are held all the time; the peak in steps; and the bytes of the graph as a whole. Bytes are sums over all
    /// buffers. lastuse_steps_new of lastuse.h computes a graph in this way.
    #[arg(long, value_name = "K", conflicts_with = "json")]
    pub steps: Option<usize>,
}

/// Plans `snapshot` in this number of steps and returns the table.
pub fn plan(file: String, snapshot: &Snapshot, buffers: &[BufferSpec], steps: usize) -> Result<String, String> {
    let nodes = snapshot.graph.nodes();
    check_parts(nodes.len(), steps).map_err(|why| why.to_string())?;
    let (leaf_buffers, node_buffers) = snapshot.requested_buffers();
    let requests = Requests { leafs: &leaf_buffers, nodes: &node_buffers };
    let mut sizes = |id: TensorId, buffer: BufferIndex| snapshot.tensors[id as usize].size_in(buffer);
    let mut planner = PartPlanner::new(&snapshot.graph, buffers, requests, &mut sizes);
    let cuts = choose_cuts(&mut planner, steps).map_err(|error| error.to_string())?;
    let parts = parts_of(nodes.len(), &cuts).map_err(|why| why.to_string())?;
    let plan = plan_parts(&mut planner, &parts).map_err(|error| error.to_string())?;
    check(snapshot, &mut planner, &parts)?;
    let whole = planner.plan_whole().map_err(|error| error.to_string())?;
    let whole = whole.buffers.iter().map(|buffer| buffer.placement.size()).fold(0, Bytes::saturating_add);
    Ok(steps_table(&table(file, snapshot, &plan, whole)))
}

/// Checks the plan of each step with both validators. An invalid plan is a defect of lastuse, and must not be shown.
fn check(snapshot: &Snapshot, planner: &mut PartPlanner<'_>, parts: &[Range<Step>]) -> Result<(), String> {
    let nbytes: Vec<Bytes> = snapshot.tensors.iter().map(|tensor| tensor.nbytes).collect();
    for part in parts {
        let graph = planner.part_graph(part);
        let plan = planner.plan_graph(&graph, part).map_err(|error| error.to_string())?;
        for (problem, buffer) in plan.problems.iter().zip(&plan.buffers) {
            check_placement(problem, &buffer.placement)?;
        }
        let simulated = simulate(&graph, &plan, &nbytes);
        simulated.map_err(|corruption| format!("the plan is invalid: {corruption}"))?;
    }
    Ok(())
}

fn table(file: String, snapshot: &Snapshot, plan: &StepwisePlan, whole: Bytes) -> StepsTable {
    let nodes = snapshot.graph.nodes();
    let row = |part: &lastuse::graph::steps::PartPlan| {
        let last = nodes[part.nodes.end as usize - 1];
        StepRow {
            nodes: part.nodes.len(),
            last_node: snapshot.tensors[last as usize].name.clone(),
            compute: part.compute(),
            crossing: part.crossing,
        }
    };
    StepsTable { file, rows: plan.parts.iter().map(row).collect(), kept: plan.kept_bytes(), peak: plan.peak(), whole }
}
