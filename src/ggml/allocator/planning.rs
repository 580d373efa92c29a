//! Plans graphs, and remembers the plans.

use std::time::Instant;

use crate::ggml::live::tensor::GraphRef;
use crate::ggml::observe::accounting::recorder;
use crate::ggml::observe::capture::captures;
use crate::ggml::read::requested::Requested;
use crate::ggml::read::snapshot::SnapshotSource;
use crate::ggml::read::workspace::Workspace;
use crate::ggml::read::{ReadGraph, read, read_for_planning};
use crate::ggml::refusal::Refusal;
use crate::ggml::retention::{RetainedAt, retain_at};
use crate::graph::{BufferIndex, GraphPlan, PlanError, Requests, TensorId, plan, plan_keeping, read_inputs};

use super::Allocator;
use super::activity::Required;
use super::kernels::prefer_cheaper_on_devices;
use super::outputs::{check_outputs, note_checked_outputs};
use super::plan_cache::cached_plan::CachedPlan;
use super::types::BufferTypes;

/// Which inputs stay intact where [`Rules::keep_inputs`](crate::graph::Rules::keep_inputs) is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Those that are intact in the plan of ggml's own allocator.
    AsGgml,
    /// All that are read.
    All,
}

impl Allocator {
    /// Plans `graph` and remembers the plan, which is then in use and keeps the tensors `retained`.
    pub(super) fn add_plan(
        &mut self,
        graph: GraphRef<'_>,
        requested: Requested,
        retained: Vec<RetainedAt>,
    ) -> Result<(), Refusal> {
        let (reading, plan) = self.read_and_plan(graph, &requested, &retained, Kept::AsGgml)?;
        self.remember(graph, reading, plan, requested, retained);
        Ok(())
    }

    /// Reads and plans `graph`, whose tensors `retained` are kept.
    pub(super) fn read_and_plan<'g>(
        &mut self,
        graph: GraphRef<'g>,
        requested: &Requested,
        retained: &[RetainedAt],
        kept: Kept,
    ) -> Result<(ReadGraph<'g>, GraphPlan), Refusal> {
        let start = Instant::now();
        let is_reported = captures().is_enabled() || self.activity.are_events_requested();
        let Self { runtime, types, workspace, .. } = self;
        let mut reading = if is_reported {
            read(runtime, types.types(), graph, requested)
        } else {
            read_for_planning(runtime, types.types(), graph, requested, workspace)
        };
        retain_at(retained, &mut reading.graph);
        if !reading.redirected.is_empty() {
            check_outputs(self.runtime, self.types.types(), graph, requested)?;
        }
        let plan =
            self.plan(&reading, requested, start, kept).inspect_err(|_| self.plans.clear(&mut self.workspace))?;
        Ok((reading, plan))
    }

    /// Remembers the plan of `graph`, which is then in use, and reports it.
    pub(super) fn remember(
        &mut self,
        graph: GraphRef<'_>,
        reading: ReadGraph<'_>,
        mut plan: GraphPlan,
        requested: Requested,
        retained: Vec<RetainedAt>,
    ) {
        let is_compared = self.activity.are_events_requested();
        let by_ggml = is_compared.then(|| self.ggml_alloc_sizes(graph, &reading, &requested));
        self.activity.note_plan(&plan, by_ggml.flatten().as_deref());
        self.activity.note_graph(&reading);
        if recorder().is_recording() {
            self.accounted.take(self.types.types(), graph, &reading, &requested, &plan);
        }
        self.plans.make_room(&mut self.workspace);
        let are_nodes_listed_once = reading.graph.nodes().windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let is_exact = !self.types.are_sizes_by_layout() || !are_nodes_listed_once;
        let exact = is_exact.then(|| self.types.fingerprint(self.runtime, graph));
        let is_redirecting = !reading.redirected.is_empty();
        self.workspace.plan.reuse_problems(std::mem::take(&mut plan.problems));
        self.plans.add(CachedPlan::new(reading, plan, requested, retained, exact));
        if let (true, Some(plan)) = (is_redirecting, self.plans.current_mut()) {
            note_checked_outputs(self.runtime, graph, plan);
        }
    }

    /// Plans `reading`, and captures it if captures are enabled. Planning time counts from `start`, before the graph
    /// was read.
    pub(super) fn plan(
        &mut self,
        reading: &ReadGraph<'_>,
        requested: &Requested,
        start: Instant,
        kept: Kept,
    ) -> Result<GraphPlan, Refusal> {
        let planned = plan_reading(&self.types, reading, requested, kept, &mut self.workspace);
        self.activity.count_planning(start.elapsed());
        if captures().is_enabled() {
            captures().capture(self.subject(reading, &requested.of_all(&reading.graph)));
        }
        planned.map_err(|PlanError::TooLarge { buffer, bytes }| {
            self.required[buffer as usize] = Required { size: bytes, lower_bound: bytes };
            Refusal::NoMemory { buffer: self.types.types()[buffer as usize].name(), size: bytes }
        })
    }

    /// Returns the data for a capture of the graph.
    pub(super) fn subject<'a, 'g>(
        &'a self,
        reading: &'a ReadGraph<'g>,
        requested: &'a Requested,
    ) -> SnapshotSource<'a, 'g> {
        let (types, buffers) = (self.types.types(), self.types.specs());
        SnapshotSource { runtime: self.runtime, types, buffers, requested, reading }
    }
}

/// Plans the graph of `reading` for the requested buffers. Debug builds simulate every plan.
///
/// # Errors
/// [`PlanError::TooLarge`] when sizes overflow.
///
/// # Panics
/// In debug builds, if the plan is wrong.
fn plan_reading(
    types: &BufferTypes,
    reading: &ReadGraph<'_>,
    requested: &Requested,
    kept: Kept,
    workspace: &mut Workspace,
) -> Result<GraphPlan, PlanError> {
    let (graph, specs) = (&reading.graph, types.specs());
    let Workspace { plan: lists, requested: only, .. } = workspace;
    let buffers = if requested.is_listed() { requested } else { only.fill(graph) };
    let requests = Requests { leafs: &buffers.leafs, nodes: &buffers.nodes };
    let by_layout = reading.sizes_by_layout(types.types());
    let mut queried = |tensor: TensorId, buffer: BufferIndex| match &by_layout {
        Some(sizes) => sizes(tensor),
        None => reading.alloc_size(types.types(), requested, tensor, buffer),
    };
    let mut planned = match (&by_layout, kept) {
        (_, Kept::All) if specs.iter().any(|spec| spec.rules.keep_inputs) => {
            let kept: Vec<_> = read_inputs(graph).into_iter().map(|input| (input, 0)).collect();
            plan_keeping(graph, specs, requests, &mut queried, &kept, lists)
        }
        (Some(sizes), _) => plan(graph, specs, requests, &mut |tensor: TensorId, _| sizes(tensor), lists),
        (None, _) => plan(graph, specs, requests, &mut queried, lists),
    };
    if let Ok(plan) = &mut planned {
        prefer_cheaper_on_devices(types, reading, requests, plan);
    }
    workspace.trim(graph.tensors().len());
    let plan = planned?;
    #[cfg(debug_assertions)]
    check(types, reading, &plan);
    Ok(plan)
}

#[cfg(debug_assertions)]
fn check(types: &BufferTypes, reading: &ReadGraph<'_>, plan: &GraphPlan) {
    let runtime = types.types().first().map(|buffer_type| buffer_type.runtime());
    let nbytes: Vec<_> =
        reading.tensors.iter().map(|&tensor| runtime.map_or(0, |runtime| runtime.nbytes(tensor))).collect();
    if let Err(corruption) = crate::graph::simulate(&reading.graph, plan, &nbytes) {
        panic!("the plan is wrong: {corruption}");
    }
}
