//! Plans of graphs from files.

use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{BufferSpec, GraphPlan, RuleSetting, Rules, simulate};
use lastuse::placement::{Effort, Placement, Problem, validate, validate_large};

/// Up to so many blocks every pair is looked at to check a plan, which takes some milliseconds.
const MOST_PAIRED: usize = 2_000;

/// As the program planned, as far as the file says it and the user says nothing else.
pub fn buffers(snapshot: &Snapshot, rules: Option<&RuleSetting>, effort: Option<u64>) -> Vec<BufferSpec> {
    let mut buffers = snapshot.recorded_buffers();
    for buffer in &mut buffers {
        if let Some(setting) = rules {
            buffer.rules = setting.rules(Rules::ALL);
        }
        if let Some(units) = effort {
            buffer.effort = Effort::units(units);
        }
    }
    buffers
}

/// A plan that is wrong is a defect of lastuse, and must never be shown as one that is right.
pub fn check(snapshot: &Snapshot, plan: &GraphPlan) -> Result<(), String> {
    for (problem, buffer) in plan.problems.iter().zip(&plan.buffers) {
        check_placement(problem, &buffer.placement)?;
    }
    let nbytes: Vec<_> = snapshot.tensors.iter().map(|tensor| tensor.nbytes).collect();
    simulate(&snapshot.graph, plan, &nbytes).map_err(|corruption| format!("the plan is wrong: {corruption}"))
}

/// Checks where the blocks of a problem lie; a wrong placement is a defect of lastuse.
pub fn check_placement(problem: &Problem, placement: &Placement) -> Result<(), String> {
    let is_large = problem.blocks().len() > MOST_PAIRED;
    let checked = if is_large { validate_large(problem, placement) } else { validate(problem, placement) };
    checked.map_err(|defect| format!("the plan is wrong: {defect}"))
}
