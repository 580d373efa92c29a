//! Plans of graphs from files, and their buffers.

use crate::output::print_notice;
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{BufferSpec, GraphPlan, NamePattern, RuleSetting, Rules, simulate};
use lastuse::placement::{Effort, Placement, Problem, validate, validate_large};

/// Placements of at most this many blocks are checked pair by pair, which takes some milliseconds.
const MAX_PAIRWISE: usize = 2_000;

/// Options for how graphs are planned.
#[derive(clap::Args)]
#[group(skip)]
pub struct Options {
    /// The rules for sharing memory [default: those recorded in the file, or else all]
    ///
    /// A list of: default, all, ggml (those of ggml-alloc), none, and names of rules, with no- to switch one off; for example
    /// "no-unread-inputs" or "ggml,views". Rules: in-place, views, rows, scans, copies, concat, oldest-source,
    /// leafs-last, unread-inputs, inactive, keep-inputs. Every buffer is planned as a CPU buffer: words for other devices, such
    /// as "gpu:ggml", have no effect on files. Captured graphs record the rules of their program: keep-inputs, which takes
    /// memory, where a program used the allocator itself.
    #[arg(long)]
    pub rules: Option<RuleSetting>,

    /// The work limit of the search for a smaller placement; 0 disables the search [default: that of the
    /// captured program, or else 100000]
    ///
    /// A core does some hundreds of millions of units a second. In programs the default is 100000. Equal efforts give equal
    /// plans. A graph may take it several times: for each buffer, for other sharing rules, and for other orders.
    #[arg(long, value_name = "UNITS")]
    pub effort: Option<u64>,

    /// The names of tensors that stay readable to the end [default: those recorded in the file]
    ///
    /// A list of patterns separated by commas, as in LASTUSE_RETAIN: * matches any characters, ? one; "*" retains every
    /// tensor, "" none. A plan that retains tensors may be larger than that of ggml-alloc, which does not.
    #[arg(long, value_name = "NAMES")]
    pub retain: Option<NamePattern>,
}

impl Options {
    /// Retains the tensors that the options name in a graph that was read.
    pub fn retain_in(&self, mut snapshot: Snapshot) -> Snapshot {
        if let Some(names) = &self.retain {
            let known = snapshot.tensors.iter().map(|tensor| &tensor.name).filter(|name| !name.is_empty());
            for pattern in names.without_match(known.clone()) {
                let some: Vec<&str> = known.clone().take(3).map(|name| &**name).collect();
                let such = if some.is_empty() { "none has a name".to_owned() } else { some.join(", ") };
                print_notice(&format!(
                    "--retain: no tensor has a name like {pattern:?}; names are, for example: {such}"
                ));
            }
            snapshot.retain(names);
        }
        snapshot
    }

    /// Returns how each buffer is planned: as recorded in the snapshot, except for values that the options set.
    pub fn buffers(&self, snapshot: &Snapshot) -> Vec<BufferSpec> {
        let mut buffers = buffers(snapshot, self.rules.as_ref());
        if let Some(units) = self.effort {
            buffers.iter_mut().for_each(|buffer| buffer.effort = Effort::units(units));
        }
        buffers
    }
}

/// Returns how each buffer is planned: as recorded in the snapshot, or with other rules.
pub fn buffers(snapshot: &Snapshot, rules: Option<&RuleSetting>) -> Vec<BufferSpec> {
    let mut buffers = snapshot.recorded_buffers();
    if let Some(setting) = rules {
        buffers.iter_mut().for_each(|buffer| buffer.rules = setting.rules(Rules::ALL));
    }
    buffers
}

/// Checks a plan with both validators. An invalid plan is a defect of lastuse, and must not be shown.
pub fn check(snapshot: &Snapshot, plan: &GraphPlan) -> Result<(), String> {
    for (problem, buffer) in plan.problems.iter().zip(&plan.buffers) {
        check_placement(problem, &buffer.placement)?;
    }
    let nbytes: Vec<_> = snapshot.tensors.iter().map(|tensor| tensor.nbytes).collect();
    simulate(&snapshot.graph, plan, &nbytes).map_err(|corruption| format!("the plan is invalid: {corruption}"))
}

/// Checks that live blocks do not overlap. An invalid placement is a defect of lastuse.
pub fn check_placement(problem: &Problem, placement: &Placement) -> Result<(), String> {
    let is_large = problem.blocks().len() > MAX_PAIRWISE;
    let checked = if is_large { validate_large(problem, placement) } else { validate(problem, placement) };
    checked.map_err(|defect| format!("the plan is invalid: {defect}"))
}

/// Returns the index of the buffer with this name, or else with this number, counted from 0.
pub fn find_buffer(snapshot: &Snapshot, buffer: &str) -> Result<usize, String> {
    let by_number = || buffer.parse().ok().filter(|&number: &usize| number < snapshot.buffers.len());
    position(snapshot, buffer).or_else(by_number).ok_or_else(|| unknown(snapshot, buffer))
}

/// Fails if no buffer has this name.
pub fn expect_name(snapshot: &Snapshot, name: &str) -> Result<(), String> {
    position(snapshot, name).map(|_| ()).ok_or_else(|| unknown(snapshot, name))
}

/// Lists the buffers of a graph for a message: "0 (CPU), 1 (GPU)".
pub fn listed(snapshot: &Snapshot) -> String {
    let names = snapshot.buffers.iter().enumerate().map(|(number, buffer)| format!("{number} ({})", buffer.name));
    names.collect::<Vec<_>>().join(", ")
}

fn position(snapshot: &Snapshot, name: &str) -> Option<usize> {
    snapshot.buffers.iter().position(|buffer| buffer.name == name)
}

fn unknown(snapshot: &Snapshot, buffer: &str) -> String {
    format!("there is no buffer {buffer:?}; the graph has {}", listed(snapshot))
}
