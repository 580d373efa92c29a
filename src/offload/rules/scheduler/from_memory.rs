//! The first pass: backends that follow from memory that is there already.

use crate::graph::{Flags, Op, TensorId};

use crate::offload::rules::backends::{BackendIndex, BufferTypeIndex};
use crate::offload::rules::capabilities::Capabilities;
use crate::offload::rules::draft::Draft;
use crate::offload::rules::offload_error::OffloadError;
use crate::offload::rules::splits::Questions;

/// Assigns leafs, then nodes.
pub fn assign<C: Capabilities>(draft: &mut Draft<'_>, questions: Questions<'_, C>) -> Result<(), OffloadError> {
    let graph = draft.placed.graph();
    for &tensor in graph.leafs().iter().chain(graph.nodes()) {
        if draft.resides[tensor as usize].is_none() {
            draft.resides[tensor as usize] = backend_of(draft, questions, tensor)?;
        }
    }
    Ok(())
}

/// Returns the backend of a tensor with memory, of an input of the program, or of an operation on a weight.
fn backend_of<C: Capabilities>(
    draft: &Draft<'_>,
    questions: Questions<'_, C>,
    tensor: TensorId,
) -> Result<Option<BackendIndex>, OffloadError> {
    if let Some(memory) = draft.placed.root_memory(tensor) {
        let backend = first_that_can(questions, memory.buffer_type, tensor);
        let buffer_type = || questions.backends.buffer_types[memory.buffer_type as usize].name.clone();
        let cannot_run =
            || OffloadError::CannotRunInPlace { tensor: draft.placed.label(tensor), buffer_type: buffer_type() };
        return backend.ok_or_else(cannot_run).map(Some);
    }
    if draft.edit.tensor(tensor).flags.has(Flags::INPUT) {
        return Ok(Some(questions.backends.host()));
    }
    let ignores_weights = match draft.placed.graph().tensor(tensor).op {
        Op::Rope => true,
        Op::FlashAttnExt => questions.options.version.attention_ignores_weights,
        _ => false,
    };
    let mut sources = draft.edit.sources(tensor).iter();
    let weight = sources.find(|&&source| !ignores_weights && draft.is_weight(source));
    Ok(weight.and_then(|&weight| backend_of_weight(draft, questions, tensor, weight)))
}

/// Returns the first backend that can use a buffer type and supports the operation of `tensor`.
fn first_that_can<C: Capabilities>(
    questions: Questions<'_, C>,
    buffer_type: BufferTypeIndex,
    tensor: TensorId,
) -> Option<BackendIndex> {
    let Questions { backends, capabilities, .. } = questions;
    backends.indices().find(|&backend| {
        capabilities.supports_buffer_type(backend, buffer_type) && capabilities.supports_op(backend, tensor)
    })
}

/// Returns the backend of the first weight of a node, or one that wants to run the node although its weight is on the
/// host.
fn backend_of_weight<C: Capabilities>(
    draft: &Draft<'_>,
    questions: Questions<'_, C>,
    node: TensorId,
    weight: TensorId,
) -> Option<BackendIndex> {
    let Questions { backends, capabilities, options } = questions;
    let buffer_type = draft.placed.root_memory(weight)?.buffer_type;
    let own_type = draft.placed.memory[weight as usize]?.buffer_type;
    let backend = first_that_can(questions, buffer_type, node)?;
    let is_on_host = backend == backends.host() && backends.buffer_types[own_type as usize].is_host;
    let offloads =
        |&other: &BackendIndex| capabilities.supports_op(other, node) && capabilities.offloads_op(other, node);
    let offloading = (options.op_offload && is_on_host).then(|| (0..backend).find(offloads)).flatten();
    Some(offloading.unwrap_or(backend))
}
