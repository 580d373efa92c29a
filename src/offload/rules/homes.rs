//! What rules without a scheduler need: which backend a memory belongs to, and results that reside elsewhere than where they
//! are computed.

use crate::graph::TensorId;

use super::backends::{BackendIndex, Backends, BufferTypeIndex};
use super::capabilities::Capabilities;
use super::draft::Draft;
use super::offload_error::OffloadError;
use super::scheduled_graph::Schedule;
use super::splits::{Questions, split};

/// Returns the backend that a buffer type belongs to: the first whose compute buffer has this type, otherwise the host if
/// it can use it, otherwise the first that can.
pub fn home<C: Capabilities>(
    backends: &Backends,
    capabilities: &C,
    buffer_type: BufferTypeIndex,
) -> Option<BackendIndex> {
    let can_use = |&backend: &BackendIndex| capabilities.supports_buffer_type(backend, buffer_type);
    let owner = backends.indices().find(|&backend| backends.buffer_type(backend) == buffer_type);
    owner.or_else(|| Some(backends.host()).filter(can_use)).or_else(|| backends.indices().find(can_use))
}

/// Sets where the tensors that are there before the graph runs reside: those with memory in it, the others on the host.
pub fn place_constants<C: Capabilities>(
    draft: &mut Draft<'_>,
    questions: Questions<'_, C>,
) -> Result<(), OffloadError> {
    let Questions { backends, capabilities, .. } = questions;
    let placed = draft.placed;
    let mut is_node = vec![false; placed.memory.len()];
    placed.graph().nodes().iter().for_each(|&node| is_node[node as usize] = true);
    let ids = (0..).zip(is_node);
    for (tensor, _) in ids.filter(|&(tensor, is_node)| !is_node || placed.root_memory(tensor).is_some()) {
        let home = match placed.root_memory(tensor) {
            None => backends.host(),
            Some(memory) => home(backends, capabilities, memory.buffer_type).ok_or_else(|| {
                let buffer_type = backends.buffer_types[memory.buffer_type as usize].name.clone();
                OffloadError::CannotRunInPlace { tensor: placed.label(tensor), buffer_type }
            })?,
        };
        draft.resides[tensor as usize] = Some(home);
        draft.executes[tensor as usize] = Some(home);
    }
    Ok(())
}

/// Returns the backend that runs `node`: `wanted` if it supports the operation, otherwise the host, otherwise the first
/// that does.
pub fn supporting<C: Capabilities>(
    draft: &Draft<'_>,
    questions: Questions<'_, C>,
    node: TensorId,
    wanted: BackendIndex,
) -> Result<BackendIndex, OffloadError> {
    let Questions { backends, capabilities, .. } = questions;
    let supports = |&backend: &BackendIndex| capabilities.supports_op(backend, node);
    let found = [wanted, backends.host()].into_iter().find(supports).or_else(|| backends.indices().find(supports));
    found.ok_or_else(|| OffloadError::Unsupported { tensor: draft.placed.label(node) })
}

/// Cuts the nodes of `draft` into splits after [`stage_results`].
pub fn split_with_staged<C: Capabilities>(
    mut draft: Draft<'_>,
    questions: Questions<'_, C>,
) -> Result<Schedule, OffloadError> {
    let executes = draft.executes.clone();
    stage_results(&mut draft);
    Ok(Schedule { executes, ..split(draft, questions)? })
}

/// Stages every node that does not reside where it runs: it is computed into memory of the backend that runs it, and
/// copied from there to where it resides. Views move nothing.
fn stage_results(draft: &mut Draft<'_>) {
    let nodes = std::mem::take(&mut draft.edit.nodes);
    let mut staged = Vec::with_capacity(nodes.len());
    for node in nodes {
        let (executes, resides) = (draft.executes[node as usize], draft.resides[node as usize]);
        if let (Some(executes), Some(resides)) = (executes, resides)
            && executes != resides
            && !draft.is_view_operation(node)
        {
            let computed = draft.stage(node, executes);
            staged.extend([computed, draft.add_marker(&[computed], executes)]);
            draft.executes[node as usize] = Some(resides);
        }
        staged.push(node);
    }
    draft.edit.nodes = staged;
}
