//! The third pass: a backend of a higher priority where it has the same memory, and backends for the nodes that no
//! expansion could assign.

use crate::graph::TensorId;

use crate::offload::rules::backends::BackendIndex;
use crate::offload::rules::capabilities::Capabilities;
use crate::offload::rules::draft::Draft;
use crate::offload::rules::splits::Questions;

/// Goes through the nodes once.
pub fn assign<C: Capabilities>(draft: &mut Draft<'_>, questions: Questions<'_, C>) {
    for position in 0..draft.edit.nodes.len() {
        let node = draft.edit.nodes[position];
        if draft.is_view_operation(node) {
            continue;
        }
        match draft.resides[node as usize] {
            Some(backend) => draft.resides[node as usize] = Some(upgraded(draft, questions, node, backend)),
            None => assign_by_sources(draft, questions, node),
        }
    }
}

/// Returns the first backend with the buffer type of `backend` that supports a node and can use all of its sources:
/// several backends may compute in the memory of the host.
fn upgraded<C: Capabilities>(
    draft: &Draft<'_>,
    questions: Questions<'_, C>,
    node: TensorId,
    backend: BackendIndex,
) -> BackendIndex {
    let Questions { backends, capabilities, .. } = questions;
    let is_better = |&other: &BackendIndex| {
        backends.buffer_type(other) == backends.buffer_type(backend)
            && capabilities.supports_op(other, node)
            && draft.edit.sources(node).iter().all(|&source| questions.can_use(draft, source, other))
    };
    (0..backend).find(is_better).unwrap_or(backend)
}

/// Assigns the backend that supports a node and can use the most of its sources; the first of equal ones. A node that is
/// a source of itself, as a cast is, is where the best backend so far is.
fn assign_by_sources<C: Capabilities>(draft: &mut Draft<'_>, questions: Questions<'_, C>, node: TensorId) {
    let Questions { backends, capabilities, .. } = questions;
    let mut most = None;
    for backend in backends.indices().filter(|&backend| capabilities.supports_op(backend, node)) {
        let count = usable_sources(draft, questions, node, backend);
        if most.is_none_or(|most| count > most) {
            most = Some(count);
            draft.resides[node as usize] = Some(backend);
        }
    }
}

/// Returns how many sources of a node are in memory that `backend` can use, as far as they are assigned.
fn usable_sources<C: Capabilities>(
    draft: &Draft<'_>,
    questions: Questions<'_, C>,
    node: TensorId,
    backend: BackendIndex,
) -> usize {
    let is_assigned = |source: TensorId| {
        draft.resides[source as usize].is_some() || draft.resides[draft.edit.root(source) as usize].is_some()
    };
    let sources = draft.edit.sources(node).iter();
    sources.filter(|&&source| is_assigned(source) && questions.can_use(draft, source, backend)).count()
}
