//! Which backend a memory belongs to.

use crate::graph::TensorId;

use super::backends::{BackendIndex, Backends, BufferTypeIndex};
use super::capabilities::Capabilities;
use super::draft::Draft;
use super::offload_error::OffloadError;
use super::splits::Questions;

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
