//! Plans of graphs from files.

use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{GraphPlan, Pool, RuleSetting, Rules, simulate};
use lastuse::placement::{Effort, validate};

/// As the program planned, as far as the file says it and the user says nothing else.
pub fn pools(snapshot: &Snapshot, rules: Option<&RuleSetting>, effort: Option<u64>) -> Vec<Pool> {
    let mut pools = snapshot.recorded_pools();
    for pool in &mut pools {
        if let Some(setting) = rules {
            pool.rules = setting.rules(Rules::ALL);
        }
        if let Some(units) = effort {
            pool.effort = Effort::units(units);
        }
    }
    pools
}

/// A plan that is wrong is a defect of lastuse, and must never be shown as one that is right.
pub fn check(snapshot: &Snapshot, plan: &GraphPlan) -> Result<(), String> {
    for (problem, pool) in plan.problems.iter().zip(&plan.pools) {
        validate(problem, &pool.placement).map_err(|defect| format!("the plan is wrong: {defect}"))?;
    }
    let nbytes: Vec<_> = snapshot.tensors.iter().map(|tensor| tensor.nbytes).collect();
    simulate(&snapshot.graph, plan, &nbytes).map_err(|corruption| format!("the plan is wrong: {corruption}"))
}
