//! The second pass: assigned backends expand over the nodes next to them, as far as they support them.

use crate::graph::TensorId;

use crate::offload::rules::backends::BackendIndex;
use crate::offload::rules::capabilities::Capabilities;
use crate::offload::rules::draft::Draft;
use crate::offload::rules::splits::Questions;

/// Expands all backends but the host down and up, then all down and up. So nodes are on the host only where weights are,
/// or where no other backend is near.
pub fn assign<C: Capabilities>(draft: &mut Draft<'_>, questions: Questions<'_, C>) {
    let down = draft.edit.nodes.clone();
    let up: Vec<TensorId> = down.iter().rev().copied().collect();
    let host = questions.backends.host();
    for order in [&down, &up] {
        expand(draft, questions, order, |backend| backend != host);
    }
    for order in [&down, &up] {
        expand(draft, questions, order, |_| true);
    }
}

/// Expands the backends that `expands` accepts over unassigned nodes in this order; the others end an expansion.
fn expand<C: Capabilities>(
    draft: &mut Draft<'_>,
    questions: Questions<'_, C>,
    order: &[TensorId],
    expands: impl Fn(BackendIndex) -> bool,
) {
    let mut current = None;
    for &node in order {
        if draft.is_view_operation(node) {
            continue;
        }
        match draft.resides[node as usize] {
            Some(backend) => current = Some(backend).filter(|&backend| expands(backend)),
            None => {
                let supported = |&backend: &BackendIndex| questions.capabilities.supports_op(backend, node);
                draft.resides[node as usize] = current.filter(supported);
            }
        }
    }
}
