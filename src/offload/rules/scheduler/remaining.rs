//! The fourth pass: views are where their roots are, and constants where they are used first.

use crate::graph::TensorId;

use crate::offload::rules::backends::BackendIndex;
use crate::offload::rules::capabilities::Capabilities;
use crate::offload::rules::draft::Draft;
use crate::offload::rules::offload_error::OffloadError;
use crate::offload::rules::splits::Questions;

/// Assigns views and sources, and to nodes that are left the first backend that supports them.
pub fn assign<C: Capabilities>(draft: &mut Draft<'_>, questions: Questions<'_, C>) -> Result<(), OffloadError> {
    for position in 0..draft.edit.nodes.len() {
        let node = draft.edit.nodes[position];
        let root = root_of_view(draft, node);
        let mut backend = draft.resides[node as usize].or(root);
        draft.resides[node as usize] = backend;
        for slot in 0..draft.edit.sources(node).len() {
            let source = draft.edit.sources(node)[slot];
            if draft.resides[source as usize].is_none() {
                let is_view = draft.edit.tensor(source).view.is_some();
                let assigned = if is_view { root_of_view(draft, source) } else { backend };
                draft.resides[source as usize] = assigned;
            }
        }
        // A node can be a source of itself.
        backend = draft.resides[node as usize];
        if backend.is_none() {
            let mut backends = questions.backends.indices();
            backend = backends.find(|&backend| questions.capabilities.supports_op(backend, node));
        }
        if backend.is_none() {
            return Err(OffloadError::Unsupported { tensor: draft.placed.label(node) });
        }
        draft.resides[node as usize] = backend;
    }
    Ok(())
}

/// Returns the backend of the root of a view; `None` if it is not a view.
fn root_of_view(draft: &Draft<'_>, tensor: TensorId) -> Option<BackendIndex> {
    draft.edit.tensor(tensor).view.and_then(|view| draft.resides[view.root as usize])
}
