//! Checks of redirected results when a graph is planned, and again when a cached plan serves it.

use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::outputs::check;
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::read::requested::Requested;
use crate::ggml::refusal::Refusal;

use super::plan_cache::cached_plan::CachedPlan;

/// Checks the redirected results of a graph that is planned for `requested`, or that fits such a plan.
///
/// # Errors
/// [`Refusal::Output`].
pub fn check_outputs(
    runtime: &'static Runtime,
    types: &[BufferType],
    graph: GraphRef<'_>,
    requested: &Requested,
) -> Result<(), Refusal> {
    let buffer_type = |node: usize| types.get(requested.buffer(requested.leafs.len() + node) as usize).copied();
    check::check_outputs(runtime, graph, buffer_type).map_err(Refusal::Output)
}

/// Checks the redirected results of a graph that `plan` serves, if constants changed in ways that the plan's key does
/// not cover.
///
/// # Errors
/// [`Refusal::Output`].
pub fn check_outputs_again(
    runtime: &'static Runtime,
    types: &[BufferType],
    graph: GraphRef<'_>,
    plan: &mut CachedPlan,
) -> Result<(), Refusal> {
    if plan.checked_outputs.is_none() {
        return Ok(());
    }
    let outputs = Fingerprint::of_outputs(runtime, graph);
    if outputs.is_some() && outputs != plan.checked_outputs {
        check_outputs(runtime, types, graph, &plan.requested)?;
        note_checked_outputs(runtime, graph, plan);
    }
    Ok(())
}

/// Notes that the redirected results of `graph`, if it has any, were checked for `plan`.
pub fn note_checked_outputs(runtime: &'static Runtime, graph: GraphRef<'_>, plan: &mut CachedPlan) {
    if let Some(outputs) = Fingerprint::of_outputs(runtime, graph) {
        plan.checked_outputs = Some(outputs);
    }
}
